"""Seeded runs of listener events: consistent, with failures, relaunches and a stop, as an engine posts them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    CheckpointFailed,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    PastError,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    StopProgress,
    StreamingStarted,
    StreamInputInfo,
)
from penstock.spi import Event

START_MS = 1_700_000_000_000
#: The phases of a stop, in order.
PHASES = ("receivers", "batches", "jobs", "checkpoint", "write-ahead log", "release", "files", "listeners")
_OUTPUTS = ("foreachRDD at app.py:12", "pprint at app.py:13")


def listener_events(
    rng: random.Random,
    *,
    batches: int = 20,
    streams: Sequence[int] = (0, 1),
    first_batch: int = 1,
    interval_ms: int = 1000,
    stops: bool = True,
) -> list[Event]:
    """Draw the events of a run, in the order of their times.

    The run starts; its receivers start, one fails at the fifth batch and is relaunched; batches queue when one takes
    longer than the interval; output operations of the third batch and of one in ten fail; a checkpoint fails.

    Args:
        rng: the random source.
        batches: the number of batches.
        streams: the ids of the receiver streams.
        first_batch: the number of the first batch, above 1 for a recovered run.
        interval_ms: the batch interval in milliseconds.
        stops: whether the run ends with a graceful stop.
    """
    began = START_MS + (first_batch - 1) * interval_ms
    timed: list[tuple[int, int, Event]] = []

    def post(time: int, event: Event) -> None:
        timed.append((time, len(timed), event))

    post(began, StreamingStarted(began))
    infos = {id_: ReceiverInfo(id_, f"Receiver-{id_}", True, "host-1", str(id_ + 1)) for id_ in streams}
    for id_ in streams:
        post(began + 1, ReceiverStarted(infos[id_]))
    free = began
    for number in range(batches):
        batch_time = began + (number + 1) * interval_ms
        fails = {0} if number == 2 else {rng.randrange(len(_OUTPUTS))} if rng.random() < 0.1 else set()
        free = _post_batch(post, rng, batch_time, streams, free, fails)
        if number == 4:
            _post_relaunch(post, rng, batch_time + 5, infos)
    if batches > 6:
        post(began + 7 * interval_ms + 1, CheckpointFailed(began + 7 * interval_ms + 1, 3, "OSError: disk full"))
    if stops:
        stop = max(free, began + (batches + 1) * interval_ms)
        post(stop, StopProgress(stop, PHASES[0], 0))
        for id_ in streams:
            post(stop + 1, ReceiverStopped(evolve(infos[id_], active=False)))
        for order, phase in enumerate(PHASES[1:], 2):
            post(stop + order, StopProgress(stop + order, phase, 0))
    return [event for _, _, event in sorted(timed, key=lambda item: item[:2])]


def _post_batch(
    post: Any, rng: random.Random, batch_time: int, streams: Sequence[int], free: int, fails: set[int]
) -> int:
    """Post the events of a batch that starts when the one before has ended; return its end."""
    inputs = {}
    for id_ in streams:
        records = rng.choice([0, 1, rng.randrange(1, 2000), rng.randrange(1, 2000)])
        metadata: dict[str, Any] = {"Description": f"{records} records", "blocks": [f"input-{id_}-{batch_time}"]}
        inputs[id_] = StreamInputInfo(id_, records, metadata, rng.choice([None, 1000.0]))
    submitted = batch_time + rng.randrange(20)
    info = BatchInfo(batch_time, inputs, submitted, None, None, _operations(batch_time))
    post(submitted, BatchSubmitted(info))
    now = max(submitted, free) + 1
    info = evolve(info, processingStartTime=now)
    post(now, BatchStarted(info))
    operations = dict(info.outputOperationInfos)
    for id_, operation in operations.items():
        operation = evolve(operation, startTime=now)
        post(now, OutputOperationStarted(operation))
        now += rng.choice([1, rng.randrange(1, 400), rng.randrange(1, 400), 900])
        failure = f"Traceback: ValueError: record {rng.randrange(10**6)}" if id_ in fails else None
        operations[id_] = evolve(operation, endTime=now, failureReason=failure)
        post(now, OutputOperationCompleted(operations[id_]))
    post(now, BatchCompleted(evolve(info, processingEndTime=now, outputOperationInfos=operations)))
    return now


def _operations(batch_time: int) -> dict[int, OutputOperationInfo]:
    return {id_: OutputOperationInfo(batch_time, id_, name, f"{name} in main") for id_, name in enumerate(_OUTPUTS)}


def _post_relaunch(post: Any, rng: random.Random, time: int, infos: dict[int, ReceiverInfo]) -> None:
    """Post that the first receiver fails, stops and is relaunched elsewhere."""
    id_ = min(infos)
    message = f"connection {rng.randrange(10**6)} lost"
    past = PastError(time, message, f"Traceback: OSError: {message}")
    failed = evolve(
        infos[id_], lastErrorMessage=message, lastError=past.error, lastErrorTime=time, recent_errors=(past,)
    )
    post(time, ReceiverError(failed))
    post(time + 1, ReceiverStopped(evolve(failed, active=False)))
    infos[id_] = evolve(failed, location="host-2", executorId="9")
    post(time + 50, ReceiverStarted(infos[id_]))


def totals_of(events: Iterable[object]) -> dict[str, Any]:
    """The totals that a correct listener shows after these events.

    Returns:
        ``batches`` completed, ``failed_batches`` among them, ``records`` in them, ``stream_records`` by stream id,
        ``receiver_errors``, and ``last_batch``, the time of the batch that completed last.
    """
    totals: dict[str, Any] = {
        "batches": 0,
        "failed_batches": 0,
        "records": 0,
        "stream_records": {},
        "receiver_errors": 0,
        "last_batch": None,
    }
    for event in events:
        if isinstance(event, ReceiverError):
            totals["receiver_errors"] += 1
        if isinstance(event, BatchCompleted):
            info = event.batchInfo
            totals["batches"] += 1
            totals["failed_batches"] += info.succeeded is False
            totals["records"] += info.numRecords
            totals["last_batch"] = info.batchTime
            for id_, stream in info.streamIdToInputInfo.items():
                totals["stream_records"][id_] = totals["stream_records"].get(id_, 0) + stream.numRecords
    return totals
