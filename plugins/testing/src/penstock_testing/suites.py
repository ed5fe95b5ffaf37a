"""Conformance suites: a subclass with a few attributes is a test class, with one test for each check.

pytest and unittest collect them.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from penstock_testing.capabilities import Capabilities
from penstock_testing.check import PINNED, Check, CheckFailure, Kind, checks_for
from penstock_testing.check_report import Report, Result
from penstock_testing.runner import is_isolated, run_check, run_isolated, run_subject
from penstock_testing.subject import Subject


class ConformanceSuite:
    """Base class of the suites. Derive from the suite of your kind of plugin.

    Attributes:
        kind: the kind of plugin; each of the four suites sets it.
        name: the name under which an installed plugin offers what is tested.
        options: options for the installed plugin, in addition to those of the feeder.
        capabilities: the capabilities that the plugin declares.
        expected_failures: check id → reason. Strict: an expected failure that passes is a failure.
        conf: configuration by full key; every check uses it.
        seed: seeds every random value.
        live: whether to run the checks that start Spark.
        isolated: run each check in a forked process: a plugin that ends or crashes its process then fails a check
            only. ``PENSTOCK_TEST_ISOLATED=1`` sets it for all suites.
        results: the results so far in this process, by check id.
    """

    kind: ClassVar[Kind]
    name: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}
    capabilities: ClassVar[Capabilities] = Capabilities()
    expected_failures: ClassVar[Mapping[str, str]] = {}
    conf: ClassVar[Mapping[str, str]] = {}
    seed: ClassVar[int] = 0
    live: ClassVar[bool] = False
    isolated: ClassVar[bool] = False
    results: ClassVar[dict[str, Result]]
    make: Callable[..., Any] | None = None
    feeder: Callable[..., Any] | None = None

    def __init_subclass__(cls, *, base: bool = False, **kwargs: Any) -> None:
        """Add a test for each check, unless the class is the base class of a kind's suites.

        Raises:
            TypeError: the class defines the test of a check itself.
        """
        super().__init_subclass__(**kwargs)
        if base:
            return
        cls.results = {}
        checks = checks_for(cls.kind)
        if own := [check.id for check in checks if _test_name(check) in cls.__dict__]:
            raise TypeError(f"{cls.__name__} overrides the tests of {', '.join(own)}: use expected_failures instead")
        for check in checks:
            _add_test(cls, check)

    def subject(self) -> Subject:
        """The attributes as a ``Subject``."""
        return Subject(
            kind=self.kind,
            make=self.make,
            feeder=self.feeder,
            name=self.name,
            options=self.options,
            capabilities=self.capabilities,
            expected_failures=self.expected_failures,
            conf=self.conf,
            seed=self.seed,
            live=self.live,
        )

    @classmethod
    def run_checks(cls, only: list[str] | None = None, *, isolated: bool = False) -> Report:
        """Run the suite without pytest."""
        return run_subject(cls().subject(), only, isolated=isolated or cls.isolated)

    @classmethod
    def report(cls, *, is_selected: bool = False) -> Report:
        """A report of the checks that have run so far in this process.

        Args:
            is_selected: the run selected tests: checks that did not run are not missed.
        """
        pinned = sum(PINNED[kind] for kind in ("plugin", cls.kind, "live"))
        results = tuple(cls.results[check.id] for check in checks_for(cls.kind) if check.id in cls.results)
        if is_selected and len(results) < pinned:
            return Report(cls.kind, cls.__name__, cls.seed, None, results)
        return Report(cls.kind, cls.__name__, cls.seed, pinned, results)


class ReceiverSuite(ConformanceSuite, base=True):
    """The checks of a receiver. Give ``feeder``, and ``make(feeder)`` or ``name``."""

    kind = "receiver"


class RateEstimatorSuite(ConformanceSuite, base=True):
    """The checks of a rate estimator. Give ``make(batch_interval_ms)`` or ``name``."""

    kind = "rate-estimator"


class ListenerSuite(ConformanceSuite, base=True):
    """The checks of a listener. Give ``make(context)``, which returns the listener for a ``ListenerContext``.

    It may return several listeners, as the hook does, or a ``ListenerProbe`` that shows the checks more.
    """

    kind = "listener"


class BlockStoreSuite(ConformanceSuite, base=True):
    """The checks of a block store. Give ``make(folder)``, which returns an object with the hook ``store``."""

    kind = "block-store"


def _test_name(check: Check) -> str:
    return f"test_{check.id.replace('-', '_')}_{check.name}"


def _add_test(cls: type[ConformanceSuite], check: Check) -> None:
    def test(self: ConformanceSuite) -> None:
        __tracebackhide__ = True
        if is_isolated(self.isolated):
            (result,) = run_isolated(self.subject(), [check])
        else:
            result = run_check(self.subject(), check)
        type(self).results[check.id] = result
        if result.outcome == "failed" and check.level != "may":
            raise CheckFailure("\n" + result.text())
        if result.outcome != "passed":
            _skip(result)

    test.__name__ = _test_name(check)
    test.__qualname__ = f"{cls.__qualname__}.{test.__name__}"
    test.__module__ = cls.__module__
    test.__doc__ = check.rule
    setattr(cls, test.__name__, test)


def _skip(result: Result) -> None:
    """Report a check that is not applicable or excused to the test runner."""
    reason = f"{result.id} {result.outcome}: {result.seen}"
    # A test module may import pytest and still be run by unittest.
    if result.outcome != "not applicable" and "PYTEST_CURRENT_TEST" in os.environ and "pytest" in sys.modules:
        import pytest

        pytest.xfail(reason)
    raise unittest.SkipTest(reason)
