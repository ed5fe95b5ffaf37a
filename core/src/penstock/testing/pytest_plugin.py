"""pytest plugin: prints the summary line of each conformance suite, and fails a run from which checks disappeared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

# What selects tests or ends a run early; other options, such as --deselect, must not shrink a suite.
_SELECTS = ("keyword", "markexpr", "maxfail", "lf", "stepwise")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run if a suite lacks the result of a check, unless the user selected tests."""
    # Not a suite that a test made and ran itself.
    collected = {getattr(item, "cls", None) for item in session.items}
    incomplete = [each for each in _ran() if each in collected and not each.report().is_complete]
    if exitstatus == 0 and incomplete and not _is_selected(session.config):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print run, not applicable, excused, failed and the pinned total of each suite that ran."""
    lines = [each.report(is_selected=_is_selected(config)).summary() for each in _ran()]
    if lines:
        terminalreporter.section("Penstock conformance")
        for line in lines:
            terminalreporter.write_line(line)


def _is_selected(config: pytest.Config) -> bool:
    # A worker of pytest-xdist runs a part of each suite.
    return (
        hasattr(config, "workerinput")
        or any("::" in argument for argument in config.args)
        or any(config.getoption(name, None) for name in _SELECTS)
    )


def _ran() -> list[Any]:
    """The suites of which a check has run."""
    # Without a suite the kit is not imported: a run of other tests stays as fast as it was.
    suites = sys.modules.get("penstock.testing.suites")
    found = [] if suites is None else _subclasses(suites.ConformanceSuite)
    return [each for each in dict.fromkeys(found) if each.__dict__.get("results")]


def _subclasses(cls: Any) -> list[Any]:
    return [each for sub in cls.__subclasses__() for each in [sub, *_subclasses(sub)]]
