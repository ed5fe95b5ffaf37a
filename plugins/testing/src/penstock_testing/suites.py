"""Conformance suites: test classes of pytest whose methods are the checks of a kind of plugin.

Derive from the suite of your kind, set a few attributes, and pytest collects one test for each check.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock import ConfigurationError
from penstock.spi import UnknownNameError
from penstock_testing.block_store_subject import BlockStoreSubject
from penstock_testing.capabilities import Capabilities
from penstock_testing.check import PINNED, Check, Kind, check_of
from penstock_testing.checks.block_stores import BlockStoreChecks
from penstock_testing.checks.listener import ListenerChecks
from penstock_testing.checks.listener_limits import ListenerLimitsChecks
from penstock_testing.checks.live import LiveChecks
from penstock_testing.checks.packaging import PackagingChecks
from penstock_testing.checks.packaging_instances import InstanceChecks
from penstock_testing.checks.packaging_options import OptionChecks
from penstock_testing.checks.rate_estimator import RateEstimatorChecks
from penstock_testing.checks.rate_estimator_loop import RateEstimatorLoopChecks
from penstock_testing.checks.rate_estimator_state import RateEstimatorStateChecks
from penstock_testing.checks.receiver_arrow import ReceiverArrowChecks
from penstock_testing.checks.receiver_data import ReceiverDataChecks
from penstock_testing.checks.receiver_faults import ReceiverFaultsChecks
from penstock_testing.checks.receiver_guarantees import ReceiverGuaranteesChecks
from penstock_testing.checks.receiver_lifecycle import ReceiverLifecycleChecks
from penstock_testing.checks.receiver_observability import ReceiverObservabilityChecks
from penstock_testing.checks.receiver_positions import ReceiverPositionsChecks
from penstock_testing.checks.receiver_rate import ReceiverRateChecks
from penstock_testing.checks.receiver_sessions import ReceiverSessionsChecks
from penstock_testing.global_state import GlobalState
from penstock_testing.listener_subject import ListenerSubject
from penstock_testing.live_subject import LiveSubject
from penstock_testing.packaging_subject import PackagingSubject
from penstock_testing.rate_estimator_subject import RateEstimatorSubject
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.subject import Subject

#: Kind of check → the class of its argument.
SUBJECTS: Mapping[Kind, type[Subject]] = {
    "plugin": PackagingSubject,
    "receiver": ReceiverSubject,
    "rate-estimator": RateEstimatorSubject,
    "listener": ListenerSubject,
    "block-store": BlockStoreSubject,
    "live": LiveSubject,
}


def _checks_in(cls: type) -> list[Check]:
    return [value for method in vars(cls).values() if (value := check_of(method)) is not None]


class ConformanceSuite:
    """Base class of the suites. Derive from the suite of your kind of plugin.

    Attributes:
        kind: the kind of plugin; each suite sets it.
        name: the name under which an installed plugin offers what is tested: that of the receiver or estimator; for
            other kinds that of the entry point. Empty for an object that no entry point offers: most packaging checks
            are then not applicable.
        options: options for the installed plugin, in addition to those of the feeder.
        capabilities: the capabilities that the plugin declares.
        expected_failures: check id → reason. Strict: an expected failure that passes is a failure.
        conf: configuration by full key; every check uses it.
        seed: seeds every random value.
        live: whether to run the checks that start Spark.
        isolated: run each check in a forked process: a plugin that ends or crashes its process then fails a check
            only. ``PENSTOCK_TEST_ISOLATED=1`` sets it for all suites.
        make: makes an instance. Receiver: ``make(feeder)``, or ``make()``; a replayable one
            ``make(feeder, position=None)``, a partitioned one ``make(feeder, index=0, count=1)``. Rate estimator:
            ``make(batch_interval_ms)``. Listener: ``make(context)``. Block store: ``make(folder)``. ``None``: what the
            installed plugin ``name`` offers.
        feeder: makes a feeder; receivers only. ``None``: checks that need data are not applicable.
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
    make: Callable[..., Any] | None = None
    feeder: Callable[..., Any] | None = None

    def __init_subclass__(cls) -> None:
        """Refuse a class that replaces a check.

        Raises:
            TypeError: the class defines the test of a check itself.
        """
        checks = {check.function.__name__: check for base in cls.__mro__[1:] for check in _checks_in(base)}
        if own := [checks[name].id for name in vars(cls) if name in checks]:
            raise TypeError(f"{cls.__name__} overrides the tests of {', '.join(own)}: use expected_failures instead")

    @classmethod
    def refuse_incomplete(cls) -> None:
        """Check the attributes.

        Raises:
            ConfigurationError: there is neither ``make`` nor the name of a plugin.
        """
        if cls.make is None and not cls.name:
            raise ConfigurationError(f"a {cls.kind} suite needs make: a function that returns a new instance")

    @pytest.fixture
    def subject(self, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> Iterator[Subject]:
        """The plugin under test, for one check. What it changed in the process is restored at the end."""
        self.refuse_incomplete()
        check: Check = request.node.get_closest_marker("conformance").args[0]
        state = GlobalState()
        with tempfile.TemporaryDirectory(prefix="penstock-check-", ignore_cleanup_errors=True) as folder:
            temporary, work = Path(folder) / "tmp", Path(folder) / "work"
            temporary.mkdir()
            work.mkdir()
            before, tempfile.tempdir = tempfile.tempdir, str(temporary)
            subject = SUBJECTS[check.kind](self, check, work, capfd)
            try:
                yield subject
            finally:
                try:
                    subject.close()
                finally:
                    tempfile.tempdir = before
                    state.restore()


class PluginSuite(InstanceChecks, OptionChecks, PackagingChecks, ConformanceSuite):
    """The checks of any plugin's packaging and loading. Give ``name``."""

    kind = "plugin"


class ReceiverSuite(
    LiveChecks,
    ReceiverSessionsChecks,
    ReceiverObservabilityChecks,
    ReceiverArrowChecks,
    ReceiverPositionsChecks,
    ReceiverGuaranteesChecks,
    ReceiverFaultsChecks,
    ReceiverRateChecks,
    ReceiverDataChecks,
    ReceiverLifecycleChecks,
    PluginSuite,
):
    """The checks of a receiver. Give ``feeder``, and ``make(feeder)`` or ``name``."""

    kind = "receiver"


class RateEstimatorSuite(
    LiveChecks, RateEstimatorStateChecks, RateEstimatorLoopChecks, RateEstimatorChecks, PluginSuite
):
    """The checks of a rate estimator. Give ``make(batch_interval_ms)`` or ``name``."""

    kind = "rate-estimator"


class ListenerSuite(LiveChecks, ListenerLimitsChecks, ListenerChecks, PluginSuite):
    """The checks of a listener. Give ``make(context)``, which returns the listener for a ``ListenerContext``.

    It may return several listeners, as the hook does, or a ``ListenerProbe`` that shows the checks more.
    """

    kind = "listener"


class BlockStoreSuite(LiveChecks, BlockStoreChecks, PluginSuite):
    """The checks of a block store. Give ``make(folder)``, which returns an object with the hook ``store``."""

    kind = "block-store"


#: Kind of plugin → its suite.
SUITES: Mapping[str, type[ConformanceSuite]] = {
    suite.kind: suite for suite in (ReceiverSuite, RateEstimatorSuite, ListenerSuite, BlockStoreSuite, PluginSuite)
}


def checks_for(kind: str, only: Iterable[str] | None = None) -> list[Check]:
    """The checks of a suite, in the order of ids: packaging, those of the kind, and the live ones.

    Args:
        kind: ``receiver``, ``rate-estimator``, ``listener``, ``block-store`` or ``plugin``.
        only: the ids of the checks to select; ``None`` selects all.

    Raises:
        ConfigurationError: ``kind`` is unknown.
        RuntimeError: the number of checks of a kind differs from ``PINNED``.
        UnknownNameError: an id is unknown for this kind; the message names the nearest.
    """
    if kind not in SUITES:
        raise ConfigurationError(f"no kind {kind!r} of plugin has checks; these have: {', '.join(SUITES)}")
    every = [check for cls in SUITES[kind].__mro__ for check in _checks_in(cls)]
    checks = {check.id: check for check in sorted(every, key=lambda check: check.order)}
    for own, pinned in PINNED.items():
        count = sum(check.kind == own for check in checks.values())
        if count not in {0, pinned} or (own == kind and not count):
            raise RuntimeError(f"the suite has {count} checks of kind {own}; PINNED says {pinned}")
    if only is None:
        return list(checks.values())
    for check_id in only:
        if check_id not in checks:
            raise UnknownNameError("check", check_id, checks, f"a {kind}")
    return [checks[check_id] for check_id in only]


def all_checks() -> dict[str, Check]:
    """Every check by id, in the order of ids.

    Raises:
        RuntimeError: the number of checks of a kind differs from ``PINNED``.
    """
    checks = {check.id: check for kind in SUITES for check in checks_for(kind)}
    return dict(sorted(checks.items(), key=lambda pair: pair[1].order))
