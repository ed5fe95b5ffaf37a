"""pytest plugin: runs conformance suites, and reports how each of their checks ended.

It turns the suites' attributes into markers, gives each check its time limit, runs checks in processes of their own if
a suite asks for that, and fails a run from which checks disappeared. Each check's ``Result`` travels in pytest's
reports.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock_testing.check import Check
    from penstock_testing.check_report import Report

# Options that select tests or end a run early. Other options, such as --deselect, must not shrink a suite.
_SELECTS = ("keyword", "markexpr", "maxfail", "lf", "stepwise")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of checks."""
    config.pluginmanager.register(_Reports(config))
    for marker in (
        "conformance(check): a conformance check of a Penstock plugin",
        "must: a conformance check that every plugin of its kind must pass",
        "should: a conformance check that a plugin should pass",
        "may: a conformance check that a plugin may pass; a failure does not fail the run",
        "capability(name): the flag of Capabilities without which a conformance check is not applicable",
    ):
        config.addinivalue_line("markers", marker)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a check its time limit, and mark it as an expected failure if the suite gives a reason."""
    check = _check_of(item)
    if check is None:
        return
    item.add_marker(pytest.mark.timeout(limit_s(check), method="signal", func_only=True))
    # The kit words failures itself. pytest would parse source files, which CPython 3.11 cannot do beside another thread
    # that does so, such as one of a receiver that formats its error (python/cpython#106905).
    item.repr_failure = _without_source  # type: ignore[method-assign]
    if reason := _suite_of(item).expected_failures.get(check.id):
        item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _without_source(excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
    return excinfo.exconly()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a check that requires a capability which the suite does not declare, or Spark without ``live``."""
    check = _check_of(item)
    if check is None:
        return
    suite = _suite_of(item)
    for marker in item.iter_markers("capability"):
        if not getattr(suite.capabilities, marker.args[0]):
            pytest.skip(f"Capabilities.{marker.args[0]} is not set")
    if check.kind == "live" and not suite.live:
        from penstock_testing.check import LIVE_OFF

        pytest.skip(LIVE_OFF)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a check in a process of its own if its suite is ``isolated``; prepare in this one what all of them need."""
    check = _check_of(item)
    if check is None:
        return None
    from penstock_testing.suites import SUBJECTS

    suite = _suite_of(item)
    # A fixture that cannot be prepared fails in the check.
    with suppress(Exception):
        SUBJECTS[check.kind].prepare(suite)
    # A live check has processes of its own, whose results other checks share.
    if check.kind == "live" or (not suite.isolated and os.environ.get("PENSTOCK_TEST_ISOLATED") != "1"):
        return None
    from penstock_testing.forked_item import forked_reports

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in forked_reports(item, check, limit_s(check)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Interrupt a check that exceeds its time limit; pytest-timeout would also print the stacks of all threads."""
    if _check_of(item) is None or threading.current_thread() is not threading.main_thread():
        return None

    def interrupt(_signal: int, _frame: object) -> None:
        raise pytest.fail.Exception(f"Timeout: {settings.timeout:g} s have passed")

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # pytest-timeout calls it
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Begin to watch the process once pytest and its plugins have set up the test."""
    if _check_of(pyfuncitem) is not None:
        pyfuncitem.funcargs["subject"].begin()  # type: ignore[attr-defined]  # a Subject


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the result of a check, and report a failure as the kit words it. A check of level may does not fail."""
    report = yield
    check = _check_of(item)
    if check is None:
        return report
    from penstock_testing.check_report import add_result, result_of

    result = result_of(check, _suite_of(item), call, report, limit_s(check))
    if result is not None:
        add_result(report, _suite_of(item), result)
    return report


class _Reports:
    """The results of the suites of one run, also those that a worker of pytest-xdist sends."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # Node id of a suite → kind, seed and results by check id.
        self._suites: dict[str, tuple[str, int, dict[str, Any]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not any(name == "penstock" for name, _ in report.user_properties):
            return
        from penstock_testing.check_report import result_in

        if check_result := result_in(report):
            kind, seed, result = check_result
            suite = report.nodeid.rpartition("::")[0]
            _, _, results = self._suites.setdefault(suite, (kind, seed, {}))
            # A failed teardown counts, unless the check failed before.
            if result.id not in results or results[result.id].outcome != "failed":
                results[result.id] = result

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail the run if a suite lacks the result of a check, unless the user selected tests."""
        if hasattr(self._config, "workerinput"):
            return
        if exitstatus == 0 and any(not report.is_complete for report in self.reports()):
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print run, not applicable, excused, failed and the pinned total of each suite that ran."""
        if reports := self.reports():
            terminalreporter.section("Penstock conformance")
            for report in reports:
                terminalreporter.write_line(report.summary())

    def reports(self) -> list[Report]:
        """A report on each suite of which a check has run."""
        if not self._suites:
            return []
        from penstock_testing.check_report import Report
        from penstock_testing.suites import checks_for

        config = self._config
        selected = any("::" in argument for argument in config.args) or any(
            config.getoption(name, None) for name in _SELECTS
        )
        reports = []
        for suite, (kind, seed, results) in self._suites.items():
            checks = checks_for(kind)
            ordered = tuple(results[check.id] for check in checks if check.id in results)
            pinned = None if selected and len(results) < len(checks) else len(checks)
            reports.append(Report(kind, suite.rpartition("::")[2], seed, pinned, ordered))
        return reports


def _check_of(item: pytest.Item) -> Check | None:
    marker = item.get_closest_marker("conformance")
    return None if marker is None else marker.args[0]


def _suite_of(item: pytest.Item) -> Any:
    return item.cls  # type: ignore[attr-defined]  # a test function


def limit_s(check: Check) -> float:
    """The time limit of a check in seconds."""
    from penstock_testing.check import scale

    return check.limit_s * scale()
