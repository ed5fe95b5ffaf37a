"""Listener checks LI-01 to LI-06, LI-08, LI-11 and LI-13: accepted events, and results that follow from them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from attrs import evolve, frozen

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    StopProgress,
    StreamInputInfo,
)
from penstock.spi import HOOK_OF, Event
from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.event_runs import START_MS, totals_of
from penstock_testing.listener_subject import ListenerSubject, RunningListener


class ListenerChecks:
    """The checks of this module, as test methods."""

    @check("LI-01", "must", change="take one positional argument in each callback, and raise in none")
    def test_LI_01_accepts_every_event(self, subject: ListenerSubject) -> None:
        """Each callback accepts its event.

        Purpose: the bus disables a listener after several consecutive errors.
        Condition: the listener has at least one callback, and none raises.
        """
        one_each = {type(event): event for event in subject.events(batches=8)}
        if missing := set(HOOK_OF) - set(one_each):
            raise RuntimeError(f"the kit's run of events lacks {missing}")
        subject.start().deliver(one_each.values())

    @check("LI-02", "must", change="read the needed fields by name, and handle unknown values of a field")
    def test_LI_02_tolerates_unknown_events(self, subject: ListenerSubject) -> None:
        """A listener tolerates fields, values and events that a later version may add.

        Purpose: a listener outlives the version that it was written for.
        Condition: nothing raises.
        """
        running = subject.start()
        info = _completed(START_MS + 1000, {77: StreamInputInfo(77, 5, {"later": [1, 2]})})
        later = _LaterBatch(**{field.name: getattr(info, field.name) for field in attrs.fields(BatchInfo)})
        running.deliver([BatchCompleted(later), _LaterStop(START_MS + 2000, "metrics", 0)])
        for target in running.probe.listeners:
            callback = getattr(target, "onReceiverMoved", None)
            if not callable(callback):
                continue
            try:
                callback(_LaterStop(START_MS + 3000, "moving", 0))
            except Exception as error:
                fail(
                    f"{type(target).__name__} has a callback of every name, and onReceiverMoved raised "
                    f"{type(error).__name__}: {error}",
                    "onReceiverMoved",
                    "raise AttributeError in __getattr__ for unknown callbacks",
                )

    @check("LI-03", "must", change="compare a time or delay with None before computing with it")
    def test_LI_03_tolerates_absent_fields(self, subject: ListenerSubject) -> None:
        """A listener tolerates fields that are None or empty.

        Purpose: times are None until they are known, a batch may be abandoned before it started, and an input stream
            that does not count its records is absent.
        Condition: nothing raises.
        """
        bare = BatchInfo(START_MS, {}, START_MS, None, None, {})
        operation = OutputOperationInfo(START_MS, 0, "", "")
        receiver = ReceiverInfo(0, "", False, "", "")
        events: list[Event] = [
            BatchSubmitted(bare),
            BatchStarted(bare),
            BatchCompleted(bare),
            BatchCompleted(evolve(bare, processingEndTime=START_MS + 100)),
            BatchCompleted(evolve(bare, processingStartTime=START_MS + 10)),
            BatchCompleted(
                evolve(bare, outputOperationInfos={0: operation}, streamIdToInputInfo={0: StreamInputInfo(0, 0)})
            ),
            OutputOperationStarted(operation),
            OutputOperationCompleted(operation),
            ReceiverStarted(receiver),
            ReceiverError(receiver),
            ReceiverStopped(receiver),
        ]
        for event in events:
            subject.start().deliver([event])
        subject.start().deliver(events)

    @check("LI-04", "must", change="handle the event that the smallest input shows")
    def test_LI_04_never_raises_on_valid_events(self, subject: ListenerSubject) -> None:
        """A listener raises for no valid sequence of events.

        Purpose: rare events occur in a program that runs for months.
        Condition: nothing raises.
        """
        for _ in range(6):
            streams = range(subject.rng.randrange(1, 5))
            events = [_odd(subject, event) for event in subject.events(batches=25, streams=streams)]
            skipped = subject.rng.choice([0, 0, subject.rng.randrange(len(events))])
            subject.start(subject.context(streams)).deliver(events[skipped:])

    @check("LI-05", "must", change="copy an event's mappings and metadata before changing them")
    def test_LI_05_leaves_events_unchanged(self, subject: ListenerSubject) -> None:
        """A listener does not change events.

        Purpose: all listeners share an event, each on its own thread.
        Condition: all events are equal to their copies, mappings and metadata included.
        """
        running = subject.start()
        for event in subject.events(batches=10):
            before = copy.deepcopy(event)
            running.deliver([event])
            running.settle()
            if event != before:
                fail(f"the listener changed the event to {event!r}", before)

    @check("LI-06", "must", change="handle events on one thread, in the order of delivery")
    def test_LI_06_order_respected(self, subject: ListenerSubject) -> None:
        """A listener handles events in the order of their delivery.

        Purpose: a listener that reorders events shows an old batch as the current one.
        Condition: after each batch ``last_batch`` in the snapshot is this batch. Both listeners give the same commands
            to the context and end with the same snapshot.
        """
        events = subject.events(batches=20, stops=False)
        slow, quick = subject.start(), subject.start()
        for event in events:
            slow.deliver([event])
            slow.settle()
            snapshot = slow.snapshot()
            if isinstance(event, BatchCompleted) and snapshot.get("last_batch", event.batchInfo.batchTime) != (
                event.batchInfo.batchTime
            ):
                fail(
                    f"the snapshot's last_batch is {snapshot['last_batch']} after batch {event.batchInfo.batchTime}",
                    event,
                )
        quick.deliver(events)
        quick.settle()
        if not slow.commands() and not slow.snapshot():
            raise NotApplicable(
                "the listener gives no commands to the context, and make returns no ListenerProbe with a snapshot"
            )
        if slow.commands() != quick.commands():
            fail(
                f"when events are delivered without waiting, {_first_difference(slow.commands(), quick.commands())}",
                "a run of 20 batches",
            )
        if slow.snapshot() != quick.snapshot():
            fail(
                f"when events are delivered without waiting, the snapshot is {quick.snapshot()} instead of "
                f"{slow.snapshot()}",
                "a run of 20 batches",
            )

    @check("LI-08", "must", change="accept a batch time that was seen before, and count each delivered event once")
    def test_LI_08_repeated_events_after_recovery(self, subject: ListenerSubject) -> None:
        """After a recovery a listener handles the events of repeated batches like all others.

        Purpose: a recovered run repeats the batches that were not complete in the checkpoint.
        Condition: JSON can hold the saved values, and nothing raises. Totals in the snapshot are at least those of the
            second run and at most those of both runs. The listener sets rates in the second run if it did in the first.
        """
        first_events, second_events = subject.events(batches=12, stops=False), subject.events(batches=12, first_batch=9)
        first = subject.start()
        first.deliver(first_events)
        first.settle()
        try:
            context = first.context.recovered()
        except Exception as error:
            fail(
                f"JSON cannot hold the values that the listener saves: {type(error).__name__}: {error}",
                first.context.saved.keys(),
            )
        second = subject.start(context)
        second.deliver(second_events)
        second.settle()
        least, most = totals_of(second_events), totals_of([*first_events, *second_events])
        for name in ("batches", "failed_batches", "records", "receiver_errors"):
            total = second.snapshot().get(name)
            if total is not None and not least[name] <= total <= most[name]:
                fail(
                    f"the snapshot's {name} is {total} after the recovery; the second run has {least[name]}, and both "
                    f"runs have {most[name]}",
                    "batches 1 to 12, then 9 to 20 after a recovery",
                )
        if first.commands() and not second.commands():
            fail(
                f"the listener gave {len(first.commands())} commands in the first run, and none after the recovery",
                "batches 9 to 20",
            )

    @check("LI-11", "must", change="count in onBatchCompleted and onReceiverError, each event once")
    def test_LI_11_totals_agree(self, subject: ListenerSubject) -> None:
        """The totals of a listener equal those of the events.

        Purpose: nobody trusts a metric that is wrong by one batch.
        Condition: ``batches``, ``failed_batches``, ``records``, ``stream_records``, ``receiver_errors`` and
            ``last_batch``, as far as the snapshot has them, equal those of the events.
        """
        compared = False
        for _ in range(3):
            running = subject.start()
            events = subject.events()
            running.deliver(events)
            running.settle()
            reported, totals = _shown_totals(running), totals_of(events)
            for name, value in reported.items():
                compared = True
                if value != totals[name]:
                    fail(
                        f"the snapshot's {name} is {value!r}, and that of the events is {totals[name]!r}",
                        f"a run of {len(events)} events",
                    )
        if not compared:
            raise NotApplicable("make returns no ListenerProbe whose snapshot has a total")

    @check("LI-13", "must", change="look up the StreamInputInfo by the id of the stream")
    def test_LI_13_streams_not_mixed(self, subject: ListenerSubject) -> None:
        """A listener computes the rates and metrics of a stream from this stream's records.

        Purpose: a rate or metric from another stream's records is wrong, and looks plausible.
        Condition: the listener sets rates for no stream without input, and for all streams with input if for one of
            them. ``stream_records`` in the snapshot equals that of the events.
        """
        compared = False
        for present in ((0,), (1,), (0, 1)):
            running = subject.start()
            events = subject.events(batches=12, streams=present)
            running.deliver(events)
            running.settle()
            steered = {command[1] for command in running.commands() if command[0] == "set_rate"}
            if steered - set(present) or (steered and steered != set(present)):
                fail(
                    f"the listener set rates for the streams {sorted(steered)}, and {list(present)} have input",
                    f"batches with input of the streams {present}",
                )
            reported = _shown_totals(running).get("stream_records")
            if reported is not None:
                expected = totals_of(events)["stream_records"]
                if {id_: count for id_, count in reported.items() if count or id_ in expected} != expected:
                    fail(
                        f"the snapshot's stream_records is {reported}, and that of the events is {expected}",
                        f"batches with input of the streams {present}",
                    )
            compared = compared or bool(steered) or reported is not None
        if not compared:
            raise NotApplicable(
                "the listener sets no rates, and make returns no ListenerProbe with stream_records in its snapshot"
            )


@frozen
class _LaterStop(StopProgress):
    """The event with a field that a later version might add."""

    reason: str = "an operator's request"


@frozen
class _LaterBatch(BatchInfo):
    """The info with a field that a later version might add."""

    partitions: tuple[int, ...] = (3, 4)


def _completed(batch_time: int, inputs: Mapping[int, StreamInputInfo]) -> BatchInfo:
    return BatchInfo(batch_time, inputs, batch_time + 3, batch_time + 5, batch_time + 105, {})


def _odd(subject: ListenerSubject, event: Event) -> Event:
    """Change something rare, but valid, in one event of four."""
    if subject.rng.random() > 0.25:
        return event
    if isinstance(event, BatchCompleted):
        info = event.batchInfo
        records = subject.rng.choice([0, 10**15])
        back = subject.rng.choice([0, 0, 3_600_000])
        inputs = {id_: evolve(input_info, numRecords=records) for id_, input_info in info.streamIdToInputInfo.items()}
        start = None if info.processingStartTime is None else info.processingStartTime - back
        end = None if info.processingEndTime is None else info.processingEndTime - back
        return BatchCompleted(
            evolve(info, streamIdToInputInfo=inputs, processingStartTime=start, processingEndTime=end)
        )
    if isinstance(event, ReceiverError):
        text = subject.rng.choice(["", "\x00", "{0} %s", '"quoted"\n', "😀 é \\"])
        return ReceiverError(evolve(event.receiverInfo, lastErrorMessage=text, lastError=text, name=f"R{text}"))
    return event


def _first_difference(expected: Sequence[object], seen: Sequence[object]) -> str:
    for number, (one, other) in enumerate(zip(expected, seen, strict=False), 1):
        if one != other:
            return f"the listener's command {number} is {other} instead of {one}"
    return f"the listener gives {len(seen)} commands instead of {len(expected)}"


def _shown_totals(running: RunningListener) -> dict[str, Any]:
    """The totals in a snapshot; stream ids as integers."""
    totals = {name: value for name, value in running.snapshot().items() if name in totals_of([])}
    if "stream_records" in totals:
        totals["stream_records"] = {int(id_): count for id_, count in totals["stream_records"].items()}
    return totals
