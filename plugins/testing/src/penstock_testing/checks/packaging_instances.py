"""Plugin checks PK-12 to PK-14: instances can be pickled, share no state, and match the declared capabilities."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import attrs
from pyspark import cloudpickle

from penstock_testing.capabilities import Capabilities
from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.checks.receiver_guarantees import ACKNOWLEDGED_S
from penstock_testing.feeder import Feeder
from penstock_testing.listener_subject import ListenerSubject
from penstock_testing.packaging_subject import PackagingSubject
from penstock_testing.plugin_probe import unpickle
from penstock_testing.rate_estimator_subject import RateEstimatorSubject
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject

_CONTAINERS = (list, dict, set, bytearray)
_RECORDS = 20
_LIMIT_S = 10.0


class InstanceChecks:
    """The checks of this module, as test methods."""

    @check(
        "PK-12", "must", change="make the receiver's modules importable, and its __getstate__ and __setstate__ complete"
    )
    def test_PK_12_travels_when_it_must(self, subject: PackagingSubject) -> None:
        """A pickled receiver can be loaded in a process that has imported nothing of the plugin.

        Purpose: receivers are made on the driver and run in new processes on executors.
        Condition: the receiver loads without an error.
        """
        if subject.suite.kind != "receiver":
            raise NotApplicable("only receivers are pickled for executors")
        pickled = cloudpickle.dumps(subject.of_kind().make())
        if failure := unpickle(pickled, subject.deadline_s(_LIMIT_S)):
            fail(f"the pickled receiver does not load in a clean process: {failure}", "a new receiver")

    @check("PK-13", "must", change="create mutable state in __init__ or onStart, not in the class or the module")
    def test_PK_13_instances_are_independent(self, subject: PackagingSubject) -> None:
        """Two instances in one process share no state.

        Purpose: one program may run several receivers and estimators of a plugin in one process; a process may make
            several contexts, with listeners and block stores each.
        Condition: the instances share no list, dict, set or bytearray; each receiver stores the records of its own
            source; the snapshot of the other listener does not change.
        """
        if subject.suite.kind == "listener":
            _listen_twice(subject)
            return
        if subject.suite.kind == "block-store":
            _compare(*(_store_in(subject, str(number)) for number in range(2)))
            return
        of_kind = subject.of_kind()
        _compare(*(subject.instance(*_arguments(of_kind)) for _ in range(2)))
        if isinstance(of_kind, ReceiverSubject) and subject.suite.feeder is not None:
            _run_two(subject, of_kind)

    @check("PK-14", "must", limit_s=60, change="set exactly those flags of Capabilities that the plugin fulfils")
    def test_PK_14_capabilities_are_true(self, subject: PackagingSubject) -> None:
        """The declared capabilities match the plugin's behaviour.

        Purpose: flags select the checks. A wrong flag hides a defect, or claims an ability that no check tests.
        Condition: no flag belongs to another kind. The source gets acknowledgements, and the estimator has a state, if
            and only if the flag is set.
        """
        declared, kind = subject.capabilities, subject.suite.kind
        for name, default in attrs.asdict(Capabilities()).items():
            value, belongs = getattr(declared, name), Capabilities.kind_of(name)
            if value != default and kind not in {belongs, "plugin"}:
                fail(f"Capabilities.{name} is set for a {kind}, and is a flag of a {belongs}", f"{name}={value}")
        if kind in {"listener", "block-store"}:
            return
        of_kind = subject.of_kind()
        if isinstance(of_kind, ReceiverSubject):
            _check_acknowledgements(subject, of_kind)
        elif isinstance(of_kind, RateEstimatorSubject):
            estimator = of_kind.make()
            for number in range(1, 21):
                estimator.compute(number * 1000, 1000 + number, 400 + number, 10)
            if (estimator.state is not None) != declared.restores:
                fail(
                    f"Capabilities.restores is {declared.restores}, and the estimator's state is a "
                    f"{type(estimator.state).__name__}",
                    "20 batches",
                )


def _compare(first: object, second: object) -> None:
    """Fail if two instances share a container."""
    if isinstance(first, ModuleType):
        return  # the plugin itself, of which there is one
    of_first, of_second = (getattr(instance, "__dict__", {}) for instance in (first, second))
    for name in of_first.keys() & of_second.keys():
        if isinstance(of_first[name], _CONTAINERS) and of_first[name] is of_second[name]:
            fail(f"two instances share one {type(of_first[name]).__name__} as the attribute {name!r}", name)


def _listen_twice(subject: PackagingSubject) -> None:
    """Make two listeners, as two contexts do, and deliver events to the first."""
    listeners = ListenerSubject(subject.suite, subject.check, subject.folder, subject.output)
    subject.on_close(listeners.close)
    first, second = listeners.start(), listeners.start()
    for one, other in zip(first.probe.listeners, second.probe.listeners, strict=True):
        _compare(one, other)
    before = {name: repr(value) for name, value in second.snapshot().items()}
    first.deliver(listeners.events())
    first.settle()
    for name, value in second.snapshot().items():
        if repr(value) != before.get(name):
            fail(
                f"events of one listener change {name!r} of another from {before.get(name)} to {value!r}",
                "two listeners; events for the first",
            )


def _store_in(subject: PackagingSubject, name: str) -> object:
    """A block store with a folder of its own, closed when the check ends."""
    folder = subject.folder / name
    folder.mkdir()
    store: object = subject.instance(folder)
    if callable(close := getattr(store, "close", None)):
        subject.on_close(close)
    return store


def _arguments(of_kind: ReceiverSubject | RateEstimatorSubject) -> list[Any]:
    """The arguments of ``make`` for a new instance."""
    if isinstance(of_kind, RateEstimatorSubject):
        return [1000]
    return [of_kind.feeder()] if of_kind.suite.feeder is not None else []


def _run_two(subject: PackagingSubject, receivers: ReceiverSubject) -> None:
    """Run two receivers with a source each, and stop one of them."""
    feeders = [receivers.feeder() for _ in range(2)]
    records = [feeder.sample(subject.rng, _RECORDS) for feeder in feeders]
    harnesses = [receivers.run(receivers.make(feeder)) for feeder in feeders]
    for feeder, own in zip(feeders, records, strict=True):
        feeder.put(own)
    for number in range(2):
        _check_own(subject, harnesses[number], harnesses[1 - number], records[number], number)
    harnesses[0].stop()
    feeders[1].put(feeders[1].sample(subject.rng, _RECORDS))
    second = harnesses[1]
    subject.until(
        lambda: second.count >= 2 * _RECORDS,
        lambda: f"after a stop of receiver 0, receiver 1 stored {second.count - _RECORDS} of {_RECORDS} records",
    )


def _check_own(
    subject: PackagingSubject, harness: ReceiverHarness, other: ReceiverHarness, own: list[Any], number: int
) -> None:
    """Fail unless a receiver stores the records of its own source and no others."""
    if not subject.becomes(lambda: harness.count >= len(own)):
        if not harness.count and not other.count:
            fail(
                f"neither of two receivers stores a record of its source; {harness.reports()}",
                change="make one receiver store records first: see RC-10",
            )
        fail(
            f"beside a receiver that stored {other.count} records, receiver {number} of two stored {harness.count} of "
            f"the {len(own)} records of its own source"
        )
    if foreign := [record for record in harness.records if record not in own]:
        fail(f"receiver {number} of two stored {foreign[0]!r}, a record of the other receiver's source", foreign[0])


def _check_acknowledgements(subject: PackagingSubject, of_kind: ReceiverSubject) -> None:
    declared = subject.capabilities.acknowledged
    feeder = of_kind.feeder()
    if type(feeder).acknowledged is Feeder.acknowledged:
        if declared:
            fail(
                f"Capabilities.acknowledged is set, and {type(feeder).__name__} has no method acknowledged to test it",
                change=f"implement acknowledged in {type(feeder).__name__}, or do not set the flag",
            )
        return
    harness = of_kind.run(of_kind.make(feeder))
    records = feeder.sample(subject.rng, _RECORDS)
    feeder.put(records)
    subject.until(
        lambda: harness.count >= _RECORDS, lambda: f"the receiver stored {harness.count} of {_RECORDS} records"
    )
    if declared:
        subject.until(
            feeder.acknowledged,
            "Capabilities.acknowledged is set, and the receiver acknowledged no stored record",
            ACKNOWLEDGED_S,
        )
    harness.stop()
    if not declared and (seen := feeder.acknowledged()):
        fail(f"Capabilities.acknowledged is not set, and the receiver acknowledged {len(seen)} records", seen[0])
