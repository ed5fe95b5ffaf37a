"""Listener checks LI-01 to LI-06, LI-08, LI-11 and LI-13: which events it takes, and what it makes of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from attrs import evolve, frozen

from penstock.listen.events import (
    HOOK_OF,
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    Event,
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
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.event_runs import START_MS, totals_of
from penstock.testing.listener_kit import ListenerKit, RunningListener


@check("LI-01", "must", change="take one positional argument in each callback, and raise in none")
def accepts_every_event(kit: ListenerKit) -> None:
    """Each callback accepts its event.

    Purpose: after several consecutive errors the bus disables a listener.
    Method: delivers one event of each of the eleven types, from a run of 8 batches.
    Condition: the listener has a callback, and none raises. PySpark-style listeners get the view that the bus gives.
    Requires: nothing.
    """
    one_each = {type(event): event for event in kit.events(batches=8)}
    if missing := set(HOOK_OF) - set(one_each):
        raise RuntimeError(f"the kit's run has no {missing}")
    kit.start().deliver(one_each.values())


@frozen
class _LaterStop(StopProgress):
    """As a later version might post it."""

    reason: str = "an operator's request"


@frozen
class _LaterBatch(BatchInfo):
    """As a later version might post it."""

    partitions: tuple[int, ...] = (3, 4)


@check("LI-02", "must", change="read the fields that are needed by name; handle an unknown value as any other text")
def tolerates_unknown_events(kit: ListenerKit) -> None:
    """Fields, values and events that a later version adds are no error.

    Purpose: a listener outlives the version that it was written for.
    Method: delivers a stop in an unknown phase and a batch of an unknown stream, both with an additional field; then
        looks up a callback that no version has and, if there is one, calls it.
    Condition: nothing raises.
    Requires: nothing.
    """
    running = kit.start()
    info = _completed(START_MS + 1000, {77: StreamInputInfo(77, 5, {"later": [1, 2]})})
    later = _LaterBatch(**{each.name: getattr(info, each.name) for each in attrs.fields(BatchInfo)})
    running.deliver([BatchCompleted(later), _LaterStop(START_MS + 2000, "metrics", 0)])
    for target in running.probe.listeners:
        callback = getattr(target, "onReceiverMoved", None)
        if not callable(callback):
            continue
        try:
            callback(_LaterStop(START_MS + 3000, "moving", 0))
        except Exception as error:
            fail(
                f"{type(target).__name__} has any callback, and onReceiverMoved raised {type(error).__name__}: {error}",
                "onReceiverMoved",
                "raise AttributeError in __getattr__ for callbacks that are not known",
            )


def _completed(batch_time: int, inputs: Mapping[int, StreamInputInfo]) -> BatchInfo:
    return BatchInfo(batch_time, inputs, batch_time + 3, batch_time + 5, batch_time + 105, {})


@check("LI-03", "must", change="test a time or delay for None before calculating with it")
def tolerates_absent_fields(kit: ListenerKit) -> None:
    """Fields that are not known (yet) are no error.

    Purpose: times are None until they are known, a batch may be abandoned before it started, and an input stream that
        cannot count is absent.
    Method: delivers batches without times, inputs, operations, metadata and rate limit; operations without times;
        receivers without host and executor. Each to a new listener, and all to one.
    Condition: nothing raises.
    Requires: nothing.
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
        kit.start().deliver([event])
    kit.start().deliver(events)


@check("LI-04", "must", change="handle what the smallest input shows")
def never_raises_on_valid_events(kit: ListenerKit) -> None:
    """No valid sequence of events raises.

    Purpose: what happens once in a million batches happens.
    Method: six seeded runs of 25 batches with one to four streams, from their start or from the middle, as a listener
        that was added later sees them. Some batches have no records, 10^15 records, or a start before their
        submission (the clock was set back); texts have any characters.
    Condition: nothing raises.
    Requires: nothing.
    """
    for _ in range(6):
        streams = range(kit.rng.randrange(1, 5))
        events = [_odd(kit, event) for event in kit.events(batches=25, streams=streams)]
        skipped = kit.rng.choice([0, 0, kit.rng.randrange(len(events))])
        kit.start(kit.context(streams)).deliver(events[skipped:])


def _odd(kit: ListenerKit, event: Event) -> Event:
    """Change something rare, but valid, in one event of four."""
    if kit.rng.random() > 0.25:
        return event
    if isinstance(event, BatchCompleted):
        info = event.batchInfo
        records = kit.rng.choice([0, 10**15])
        back = kit.rng.choice([0, 0, 3_600_000])
        inputs = {id_: evolve(each, numRecords=records) for id_, each in info.streamIdToInputInfo.items()}
        start = None if info.processingStartTime is None else info.processingStartTime - back
        end = None if info.processingEndTime is None else info.processingEndTime - back
        return BatchCompleted(
            evolve(info, streamIdToInputInfo=inputs, processingStartTime=start, processingEndTime=end)
        )
    if isinstance(event, ReceiverError):
        text = kit.rng.choice(["", "\x00", "{0} %s", '"quoted"\n', "😀 é \\"])
        return ReceiverError(evolve(event.receiverInfo, lastErrorMessage=text, lastError=text, name=f"R{text}"))
    return event


@check("LI-05", "must", change="copy what is to be changed or kept")
def leaves_events_unchanged(kit: ListenerKit) -> None:
    """Events are as before after a listener has handled them.

    Purpose: all listeners share an event, on threads of their own.
    Method: delivers a run of 10 batches and compares each event with a deep copy made before.
    Condition: all are equal, their mappings and metadata included.
    Requires: nothing.
    """
    running = kit.start()
    for event in kit.events(batches=10):
        before = copy.deepcopy(event)
        running.deliver([event])
        running.settle()
        if event != before:
            fail(f"the event is now {event!r}", before)


@check("LI-06", "must", change="handle events on one thread, first in, first out")
def order_respected(kit: ListenerKit) -> None:
    """What a listener does and shows follows from the events in the order of their delivery.

    Purpose: of two batches the later one is the current one, whatever the listener does meanwhile.
    Method: delivers a run of 20 batches event by event to one listener, waiting each time until it has handled the
        event, and at once to another.
    Condition: after each batch ``last_batch`` in the snapshot is this batch; both give the same commands to the
        context and end with the same snapshot.
    Requires: nothing; not applicable to a listener that gives no commands and has no snapshot.
    """
    events = kit.events(batches=20, stops=False)
    slow, quick = kit.start(), kit.start()
    for event in events:
        slow.deliver([event])
        slow.settle()
        shown = slow.snapshot()
        if isinstance(event, BatchCompleted) and shown.get("last_batch", event.batchInfo.batchTime) != (
            event.batchInfo.batchTime
        ):
            fail(f"last_batch is {shown['last_batch']} after batch {event.batchInfo.batchTime}", event)
    quick.deliver(events)
    quick.settle()
    if not slow.commands() and not slow.snapshot():
        raise NotApplicable("it gives no commands to the context, and make returns no ListenerProbe with a snapshot")
    if slow.commands() != quick.commands():
        fail(f"{_first_difference(slow.commands(), quick.commands())} when events come at once", "a run of 20 batches")
    if slow.snapshot() != quick.snapshot():
        fail(f"the snapshot is {quick.snapshot()} when events come at once, else {slow.snapshot()}", "20 batches")


def _first_difference(expected: Sequence[object], seen: Sequence[object]) -> str:
    for number, (one, other) in enumerate(zip(expected, seen, strict=False), 1):
        if one != other:
            return f"command {number} is {other} instead of {one}"
    return f"{len(seen)} commands instead of {len(expected)}"


@check(
    "LI-08", "must", change="accept a batch time that was seen before; count what was delivered, once for each event"
)
def repeated_events_after_recovery(kit: ListenerKit) -> None:
    """After a recovery the events of batches that run again are handled like all others.

    Purpose: a recovered run repeats the batches that the checkpoint did not know to be complete.
    Method: a run of 12 batches, without a stop; what the listener saved goes through JSON to a new listener, which
        gets a run that begins with batch 9 and has 12 batches.
    Condition: what is saved is JSON; nothing raises; totals in the snapshot are at least those of the second run and
        at most those of both; rates are set in the second run if they were in the first.
    Requires: nothing.
    """
    first_events, second_events = kit.events(batches=12, stops=False), kit.events(batches=12, first_batch=9)
    first = kit.start()
    first.deliver(first_events)
    first.settle()
    try:
        context = first.context.recovered()
    except Exception as error:
        fail(f"what it saves is not JSON: {type(error).__name__}: {error}", first.context.saved.keys())
    second = kit.start(context)
    second.deliver(second_events)
    second.settle()
    least, most = totals_of(second_events), totals_of([*first_events, *second_events])
    for name in ("batches", "failed_batches", "records", "receiver_errors"):
        shown = second.snapshot().get(name)
        if shown is not None and not least[name] <= shown <= most[name]:
            fail(
                f"{name} is {shown} after the recovery; the second run has {least[name]}, both have {most[name]}",
                "batches 1 to 12, then 9 to 20 after a recovery",
            )
    if first.commands() and not second.commands():
        fail(f"{len(first.commands())} commands in the first run, none after the recovery", "batches 9 to 20")


@check("LI-11", "must", change="count in onBatchCompleted and onReceiverError, each event once")
def totals_agree(kit: ListenerKit) -> None:
    """Totals are those of the events.

    Purpose: a metric that is wrong by one batch is believed as little as one that is missing.
    Method: delivers three runs of 20 batches to new listeners and compares the well-known names of the snapshot.
    Condition: ``batches``, ``failed_batches``, ``records``, ``stream_records``, ``receiver_errors`` and
        ``last_batch``, as far as they are shown, are equal.
    Requires: nothing; not applicable without a snapshot that shows one of them.
    """
    compared = False
    for _ in range(3):
        running = kit.start()
        events = kit.events()
        running.deliver(events)
        running.settle()
        shown, totals = _shown_totals(running), totals_of(events)
        for name, value in shown.items():
            compared = True
            if value != totals[name]:
                fail(f"{name} is {value!r}, the events say {totals[name]!r}", f"a run of {len(events)} events")
    if not compared:
        raise NotApplicable("make returns no ListenerProbe whose snapshot has a total")


def _shown_totals(running: RunningListener) -> dict[str, Any]:
    """The totals in a snapshot; stream ids as integers."""
    known = {name: value for name, value in running.snapshot().items() if name in totals_of([])}
    if "stream_records" in known:
        known["stream_records"] = {int(id_): count for id_, count in known["stream_records"].items()}
    return known


@check("LI-13", "must", change="take the stream's own StreamInputInfo, by its id")
def streams_not_mixed(kit: ListenerKit) -> None:
    """What concerns one stream follows from this stream's part of the events.

    Purpose: with the records of another stream a rate, or a metric, is wrong without looking wrong.
    Method: runs of 12 batches of which only stream 0 has input, only stream 1, and both.
    Condition: rates are set for streams with input only, but for every such stream if for one; ``stream_records``
        in the snapshot are those of the events.
    Requires: nothing; not applicable to a listener that sets no rate and has no ``stream_records``.
    """
    compared = False
    for present in ((0,), (1,), (0, 1)):
        running = kit.start()
        events = kit.events(batches=12, streams=present)
        running.deliver(events)
        running.settle()
        steered = {command[1] for command in running.commands() if command[0] == "set_rate"}
        if steered - set(present) or (steered and steered != set(present)):
            fail(f"rates were set for the streams {sorted(steered)}", f"batches with input of the streams {present}")
        shown = _shown_totals(running).get("stream_records")
        if shown is not None:
            expected = totals_of(events)["stream_records"]
            if {id_: count for id_, count in shown.items() if count or id_ in expected} != expected:
                fail(f"stream_records is {shown}, the events say {expected}", f"input of the streams {present}")
        compared = compared or bool(steered) or shown is not None
    if not compared:
        raise NotApplicable("it sets no rates, and make returns no ListenerProbe with stream_records in its snapshot")
