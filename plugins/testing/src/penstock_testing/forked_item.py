"""Runs one test in a forked process, so that a plugin which ends or blocks its process fails a check only."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import warnings
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol

from penstock_testing.check import Check, CheckFailure
from penstock_testing.check_report import Result, add_result, failed

if TYPE_CHECKING:
    from collections.abc import Sequence

# A process gets this long after a check's time limit to report the hang itself.
_GRACE_S = 8.0


def forked_reports(item: pytest.Item, check: Check, limit_s: float) -> Sequence[pytest.TestReport]:
    """Run a test in a forked process; return its reports, or one that says how the plugin ended the process."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside other threads; those of libraries such as Arrow are idle here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            reports = runtestprotocol(item, nextitem=None, log=False)
            to_json = item.config.hook.pytest_report_to_serializable
            data = [to_json(config=item.config, report=report) for report in reports]
            with os.fdopen(writer, "w") as file:
                json.dump(data, file)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    text = _read(reader, time.monotonic() + limit_s + _GRACE_S)
    if text is None:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if text:
        from_json = item.config.hook.pytest_report_from_serializable
        return [from_json(config=item.config, data=data) for data in json.loads(text)]
    if text is None:
        ended = f"did not end within its time limit of {limit_s:g} s and was killed"
    else:
        ended = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    return [_report_of(item, check, f"the process of the check {ended}")]


def _read(reader: int, deadline: float) -> str | None:
    """What the process writes until it ends; ``None`` if the deadline passes before."""
    data = b""
    with os.fdopen(reader, "rb", buffering=0) as file:
        while select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not (chunk := file.read(65536)):
                return data.decode()
            data += chunk
    return None


def _report_of(item: pytest.Item, check: Check, seen: str) -> pytest.TestReport:
    suite = item.cls  # type: ignore[attr-defined]  # a test function
    reason = suite.expected_failures.get(check.id)
    failure = CheckFailure(seen, change="do not end or crash the process: raise an exception, or call Receiver.stop")
    result = Result.of(check, "excused", seen=reason) if reason else failed(check, failure)
    report = pytest.TestReport(item.nodeid, item.location, {}, "skipped" if reason else "failed", "", "call")
    if reason:
        report.wasxfail = reason
    add_result(report, suite, result)
    return report
