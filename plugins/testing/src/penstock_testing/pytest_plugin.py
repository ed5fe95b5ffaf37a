"""pytest plugin: prints the summary line of each conformance suite, and fails a run from which checks disappeared."""

from __future__ import annotations

import sys
from typing import Any

import pytest

# What selects tests or ends a run early; other options, such as --deselect, must not shrink a suite.
_SELECTS = ("keyword", "markexpr", "maxfail", "lf", "stepwise")
_REPORTS = pytest.StashKey[list[Any]]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run if a suite lacks the result of a check, unless the user selected tests."""
    reports = session.config.stash[_REPORTS] = _reports(session)
    if exitstatus == 0 and any(not each.is_complete for each in reports):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print run, not applicable, excused, failed and the pinned total of each suite that ran."""
    if reports := config.stash.get(_REPORTS, []):
        terminalreporter.section("Penstock conformance")
        for each in reports:
            terminalreporter.write_line(each.summary())


def _reports(session: pytest.Session) -> list[Any]:
    """The reports on the suites that pytest collected, and of which a check has run."""
    # Without a suite the kit is not imported: a run of other tests stays as fast as it was.
    suites = sys.modules.get("penstock_testing.suites")
    if suites is None:
        return []
    classes = dict.fromkeys(getattr(item, "cls", None) for item in session.items)
    ran = [each for each in classes if each and issubclass(each, suites.ConformanceSuite) and each.results]
    return [each.report(is_selected=_is_selected(session.config)) for each in ran]


def _is_selected(config: pytest.Config) -> bool:
    # A worker of pytest-xdist runs a part of each suite.
    return (
        hasattr(config, "workerinput")
        or any("::" in argument for argument in config.args)
        or any(config.getoption(name, None) for name in _SELECTS)
    )
