"""A mutant: a plugin that breaks one rule of the conformance kit, and the words with which its check must fail."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attrs import field, frozen

from penstock_testing import Capabilities, Feeder, Report, pytest_plugin, run_checks
from penstock_testing.check import scale as machine_scale


@frozen(kw_only=True)
class Mutant:
    """A plugin that breaks one rule.

    Attributes:
        check: the id of the check that it must fail.
        words: a part of the failure's ``seen``.
        kind: the kind of plugin.
        make: makes an instance.
        feeder: makes a feeder; receivers only.
        capabilities: the declared capabilities.
        scale: ``PENSTOCK_TEST_SCALE`` for its own check; below 1 if the check waits for an event that never occurs.
        also: other checks that the same defect fails unavoidably.
        because: why it fails these.
        defect: what the plugin does wrong; empty for the docstring of ``make``.
        files: path → text of an installed distribution, in a folder that is on the search path during the checks.
        extra: further arguments of ``run_checks``.
    """

    check: str
    words: str
    kind: str
    make: Callable[..., Any] | None = None
    feeder: Callable[[], Feeder] | None = None
    capabilities: Capabilities = field(factory=Capabilities)
    scale: float = 1.0
    also: tuple[str, ...] = ()
    because: str = ""
    defect: str = ""
    files: Mapping[str, str] = field(factory=dict)
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def name(self) -> str:
        """The name of its class, or of an installed plugin."""
        return getattr(self.make, "__name__", "") or str(self.extra["name"])

    @property
    def what(self) -> str:
        """What it does wrong, as a sentence."""
        return self.defect or " ".join((self.make.__doc__ or "").partition("\n\n")[0].split())

    @property
    def id(self) -> str:
        """The name for reports."""
        return f"{self.check}-{self.name}"

    def run(self, only: list[str], scale: float = 1.0) -> Report:
        """Run these checks on the mutant. ``PENSTOCK_TEST_SCALE`` multiplies the scale."""
        unhurried = max(machine_scale(), scale)
        with (
            installed_files(self.files),
            patch.dict(os.environ, {"PENSTOCK_TEST_SCALE": str(scale * machine_scale())}),
            # The scale shortens what a check waits for, not its own time limit, which a busy machine might exceed.
            patch.object(pytest_plugin, "limit_s", lambda check: check.limit_s * unhurried),
        ):
            return run_checks(self.kind, self.make, self.feeder, only, capabilities=self.capabilities, **self.extra)


@contextmanager
def installed_files(files: Mapping[str, str]) -> Iterator[None]:
    """Put files into a folder on the search path."""
    if not files:
        yield
        return
    modules = set(sys.modules)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        sys.path.append(folder)
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.path.remove(folder)
            for name in set(sys.modules) - modules:
                if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
                    del sys.modules[name]


def all_mutants(*, live: bool = False) -> list[Mutant]:
    """The lists ``MUTANTS``, or ``LIVE_MUTANTS``, of every module in this folder, in the order of checks."""
    names = [file.stem for file in Path(__file__).parent.glob("*.py") if not file.stem.startswith(("_", "test_"))]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in sorted(names)]
    mutants = [mutant for module in modules for mutant in getattr(module, "LIVE_MUTANTS" if live else "MUTANTS", [])]
    return sorted(mutants, key=lambda mutant: mutant.check)
