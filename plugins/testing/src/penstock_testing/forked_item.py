"""Runs one check in a forked process, so that a plugin which ends or blocks its process fails a check only."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol

from penstock_testing.check import Check, CheckFailure
from penstock_testing.check_report import Result, add_result, failed
from penstock_testing.forked import HUNG, in_fork

# A process gets this long after a check's time limit to report the hang itself.
_GRACE_S = 8.0


def forked_reports(item: pytest.Item, check: Check, limit_s: float) -> Sequence[pytest.TestReport]:
    """Run a check in a forked process; return its reports, or one that says how the plugin ended the process."""
    hook = item.config.hook

    def run() -> bytes:
        reports = runtestprotocol(item, nextitem=None, log=False)
        return json.dumps(
            [hook.pytest_report_to_serializable(config=item.config, report=report) for report in reports]
        ).encode()

    data, ended = in_fork(run, limit_s + _GRACE_S)
    if data is not None:
        return [hook.pytest_report_from_serializable(config=item.config, data=report) for report in json.loads(data)]
    suite = item.cls  # type: ignore[attr-defined]  # a test function
    if ended == HUNG:
        ended = f"did not end within its time limit of {limit_s:g} s and was killed"
    failure = CheckFailure(
        f"the process of the check {ended}",
        change="do not end or crash the process: raise an exception, or call Receiver.stop",
    )
    reason = suite.expected_failures.get(check.id)
    report = pytest.TestReport(item.nodeid, item.location, {}, "skipped" if reason else "failed", "", "call")
    if reason:
        report.wasxfail = reason
    add_result(report, suite, Result.of(check, "excused", seen=reason) if reason else failed(check, failure))
    return [report]
