"""Runs the command with click's runner; installs plugins for one test."""

from __future__ import annotations

import importlib.metadata
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock_cli.command import penstock

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Isolates each test from the environment, and later tests from its changes to the process."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    environment, level = dict(os.environ), logging.getLogger("penstock").level
    yield
    os.environ.clear()
    os.environ.update(environment)
    logging.getLogger("penstock").setLevel(level)


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Runs the command with these arguments."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(penstock, arguments, prog_name="penstock")

    return run


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a plugin from source code; the plugins that are really installed are hidden."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def entry_points(**params: Any) -> importlib.metadata.EntryPoints:
        distributions = importlib.metadata.distributions(path=[str(tmp_path)])
        return importlib.metadata.EntryPoints(
            entry_point for one in distributions for entry_point in one.entry_points
        ).select(**params)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    def make(name: str, source: str) -> None:
        module = f"made_for_a_test_{next(_numbers)}"
        (tmp_path / f"{module}.py").write_text(source)
        information = tmp_path / f"acme_{name}-1.2.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: 1.2\n")
        (information / "entry_points.txt").write_text(f"[penstock]\n{name} = {module}\n")

    return make
