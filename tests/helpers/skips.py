"""With ``PENSTOCK_TEST_SKIPS=refuse`` a test that is skipped fails, unless ``ALLOWED`` says why it may be.

A plugin of pytest. CI sets the variable: a package that is missing there must not leave tests out unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

#: Part of the file and the reason of a skip → why it is no gap in what CI tests.
ALLOWED = {
    "penstock_testing/": "a conformance check that does not apply to the plugin, by the capabilities of its suite",
    "root may write anywhere": "only root can mount the disks of other tests, so CI runs as root",
    "the superuser may read everything": "only root can mount the disks of other tests, so CI runs as root",
    "could not import 'matplotlib'": "`make bench` installs it, and CI runs tests/benchmarks again after that",
    "no network namespaces here": "most containers may not create any; whether one may is not for the tests to decide",
    "this user may not mount a tmpfs": "most containers may not mount anything, and a CI that is not root neither",
    "network namespaces need root": "a CI that is not root cannot create any",
    "this system's queue of connections does not fill up": "the kernel of some sandboxes accepts every connection",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse a skip of a test."""
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse a skip of a whole file."""
    report = yield
    _refuse(report)
    return report


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("PENSTOCK_TEST_SKIPS") != "refuse" or not report.skipped or hasattr(report, "wasxfail"):
        return
    path, _line, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, str(report.longrepr))
    if not any(part in f"{path}: {reason}" for part in ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"{reason}. PENSTOCK_TEST_SKIPS=refuse allows only the reasons in tests/helpers/skips.py"
