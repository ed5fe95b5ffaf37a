"""A mutant: a plugin that breaks one rule of the conformance kit, and the words with which its check must fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from penstock.testing import Capabilities, Feeder


@frozen(kw_only=True)
class Mutant:
    """A plugin that breaks one rule.

    Attributes:
        check: the id of the check that it must fail.
        words: a part of what the failure has seen.
        kind: of the plugin.
        make: makes it.
        feeder: its source.
        capabilities: what it declares.
        scale: ``PENSTOCK_TEST_SCALE`` for its own check: below 1 where the check waits for something that never comes.
        also: other checks that it fails by the same rule, which the rules make unavoidable.
    """

    check: str
    words: str
    kind: str
    make: Callable[..., Any] | None = None
    feeder: Callable[[], Feeder] | None = None
    capabilities: Capabilities = field(factory=Capabilities)
    scale: float = 1.0
    also: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(factory=dict)  # further arguments of run_checks

    @property
    def id(self) -> str:
        """Names it in reports."""
        return f"{self.check}-{getattr(self.make, '__name__', self.make)}"
