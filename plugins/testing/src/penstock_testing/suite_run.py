"""``run_checks`` and ``run_suite`` run pytest on one conformance suite, and return its ``Report``."""

from __future__ import annotations

import signal
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock_testing.capabilities import Capabilities
from penstock_testing.check import Check
from penstock_testing.check_report import Report, Result, result_in
from penstock_testing.feeder import Feeder
from penstock_testing.suites import SUITES, ConformanceSuite, checks_for

_OPTIONS = (
    # Neither the configuration nor the plugins of a project change the result.
    "--disable-plugin-autoload",
    "--noconftest",
    "--config-file=/dev/null",
    "--import-mode=importlib",
    *("-ppytest_timeout", "-ppenstock_testing.pytest_plugin"),
    # unraisableexception searches for garbage at the end of each run, to warn on the terminal, which is off.
    *(f"-pno:{name}" for name in ("terminal", "unraisableexception")),
    *(f"-pno:{name}" for name in ("cacheprovider", "faulthandler", "doctest", "junitxml")),
)


def run_checks(
    kind: str,
    make: Callable[..., Any] | None = None,
    feeder: Callable[[], Feeder] | None = None,
    only: Iterable[str] | None = None,
    *,
    name: str = "",
    options: Mapping[str, Any] | None = None,
    capabilities: Capabilities | None = None,
    expected_failures: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    seed: int = 0,
    live: bool = False,
    isolated: bool = False,
    on_result: Callable[[Result], object] | None = None,
) -> Report:
    """Run the conformance checks on a plugin, by pytest, in this process.

    Args:
        kind: ``receiver``, ``rate-estimator``, ``listener``, ``block-store``; ``plugin`` for its packaging alone.
        make: makes an instance; see ``ConformanceSuite``.
        feeder: makes a feeder; receivers only.
        only: ids of the checks to run; ``None`` runs all.
        name: the name under which an installed plugin offers what is tested.
        options: options for the installed plugin, by name.
        capabilities: the capabilities that the plugin declares.
        expected_failures: check id → reason.
        conf: configuration by full key; every check uses it.
        seed: seeds every random value.
        live: whether to run the checks that start Spark.
        isolated: run each check in a forked process, so that a plugin which ends its process fails a check only.
        on_result: called with each result as soon as the check ends.

    Raises:
        ConfigurationError: the kind is unknown, or both ``make`` and ``name`` are missing.
        UnknownNameError: an id in ``only`` is unknown; the message names the nearest.
    """
    checks_for(kind)  # refuses an unknown kind
    attributes = {
        "make": None if make is None else staticmethod(make),
        "feeder": None if feeder is None else staticmethod(feeder),
        "name": name,
        "options": options or {},
        "capabilities": capabilities or Capabilities(),
        "expected_failures": expected_failures or {},
        "conf": conf or {},
        "seed": seed,
        "live": live,
        "isolated": isolated,
    }
    suite = type(name or getattr(make, "__qualname__", str(make)), (SUITES[kind],), attributes)
    return run_suite(suite, only, on_result=on_result)


def run_suite(
    suite: type[ConformanceSuite],
    only: Iterable[str] | None = None,
    *,
    on_result: Callable[[Result], object] | None = None,
) -> Report:
    """Run the checks of a suite; see ``run_checks``."""
    suite.refuse_incomplete()
    checks = checks_for(suite.kind, only)
    run = _Run(suite, checks, on_result)
    with _timer_of_the_caller(), pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        status = pytest.main([*_OPTIONS, f"--rootdir={Path(__file__).parent}", __file__], plugins=[run])
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        what = f"pytest ended with {status!r} and ran {len(run.results)} of {len(checks)} checks"
        raise RuntimeError(what) from run.internal_error
    results = tuple(run.results[check.id] for check in checks if check.id in run.results)
    return Report(suite.kind, suite.__name__, suite.seed, len(checks) if only is None else None, results)


class _Run:
    """A pytest plugin: lets pytest collect one suite, and keeps the results."""

    def __init__(
        self, suite: type[ConformanceSuite], checks: Sequence[Check], on_result: Callable[[Result], object] | None
    ) -> None:
        self._suite = suite
        self._checks = {check.id for check in checks}
        self._on_result = on_result
        self.results: dict[str, Result] = {}
        #: An error of pytest or of a plugin, outside of the checks.
        self.internal_error: BaseException | None = None

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.internal_error = excinfo.value

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module:
        module = _SuiteModule.from_parent(parent, path=module_path)
        module.suite = self._suite
        return module

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # A suite may have tests of its own, which are not checks.
        marked = [(item, marker) for item in items for marker in item.iter_markers("conformance")]
        items[:] = [item for item, marker in marked if marker.args[0].id in self._checks]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        check_result = result_in(report)
        if check_result is None or self._is_failed(check_result[2].id):
            return
        result = check_result[2]
        self.results[result.id] = result
        if self._on_result is not None:
            self._on_result(result)

    def _is_failed(self, check_id: str) -> bool:
        return check_id in self.results and self.results[check_id].outcome == "failed"


class _SuiteModule(pytest.Module):
    """A module with one suite as its only test class."""

    suite: type[ConformanceSuite]

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType("suite")
        module.TestSuite = self.suite  # type: ignore[attr-defined]  # the name that pytest looks for
        return module


@contextmanager
def _timer_of_the_caller() -> Iterator[None]:
    """Keep the timer of a test that runs checks: pytest-timeout has one per process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    remaining, _ = signal.getitimer(signal.ITIMER_REAL)
    handler = signal.getsignal(signal.SIGALRM)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, remaining)
