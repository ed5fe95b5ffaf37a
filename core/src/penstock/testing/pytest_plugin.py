"""pytest plugin: prints the summary line of each conformance suite at the end of the run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print run, not applicable, excused, failed and the pinned total of each suite that ran."""
    # Without a suite the kit is not imported: a run of other tests stays as fast as it was.
    suites = sys.modules.get("penstock.testing.suites")
    if suites is None:
        return
    classes = [each for base in suites.ConformanceSuite.__subclasses__() for each in _subclasses(base)]
    lines = [each.report().summary() for each in classes if each.results]
    if lines:
        terminalreporter.section("Penstock conformance")
        for line in lines:
            terminalreporter.write_line(line)


def _subclasses(cls: Any) -> list[Any]:
    return [each for sub in cls.__subclasses__() for each in [sub, *_subclasses(sub)]]
