"""Snapshots of applications that never ran: seeded, of any size, steady, slow, stalled or with problems."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache

from penstock import DStreamInfo, PastError, ReceiverInfo, SourceStatus, StreamInputInfo
from penstock_ui.snapshot import (
    Application,
    Batch,
    BatchStatus,
    Listener,
    Operation,
    RateChange,
    Snapshot,
    Storage,
    Stream,
    Totals,
)
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.spark_stages import StageRun
from penstock_ui.time_budget import TimeBudget

#: 2026-11-22 12:00:00 UTC
START_MS = 1_795_348_800_000
HOSTILE = "<script>alert('x')</script>&\"<img src=x onerror=alert(1)>"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/orders.py", line 41, in write\n'
    "    sink.write(rows)\n"
    "ConnectionRefusedError: [Errno 111] Connection refused: <b>sink-2</b>:5432"
)
NAMES = ("write at orders.py:41", "pprint at orders.py:52", "saveAsTextFiles at orders.py:60")


@cache
def _batch(number: int, receivers: int, interval_ms: int, slow: bool, detailed: bool, start_ms: int) -> Batch:
    chance = random.Random(number * 7919 + receivers)
    time_ms = start_ms + (number + 1) * interval_ms
    wave = 1 + 0.4 * ((number % 90) / 45 - 1 if number % 90 < 45 else 1 - (number % 90 - 45) / 45)
    # Streams differ in eleven ways.
    counts = [int(interval_ms / 1000 * (900 + 37 * way) * wave * chance.uniform(0.85, 1.15)) for way in range(11)]
    records = sum(counts[stream % 11] for stream in range(receivers))
    inputs = {}
    if detailed:
        limits = [1500.0 + 10 * way for way in range(11)]
        inputs = {id_: StreamInputInfo(id_, counts[id_ % 11], {}, limits[id_ % 11]) for id_ in range(receivers)}
    took = int(interval_ms * (1.25 if slow else 0.55) * wave * chance.uniform(0.85, 1.2))
    waited = int(number * interval_ms * 0.2) if slow else int(chance.expovariate(1 / 9))
    if not slow and chance.random() < 0.01:
        took += interval_ms
    submitted = time_ms + 3 + chance.randrange(5)
    started, ended = submitted + waited, submitted + waited + took
    failed = number % 97 == 60
    at, operations = started, []
    for index, share in enumerate((0.7, 0.2, 0.1)):
        until = ended if index == 2 else at + int(took * share)
        failure = TRACEBACK if failed and index == 0 else None
        operations.append(
            Operation(
                index,
                NAMES[index],
                NAMES[index].replace("orders", "/srv/app/orders"),
                at,
                until,
                failure,
                tuple(
                    _job(job_id, time_ms, index, at, until, failed=failure is not None)
                    for job_id in ((number * 4 + index, number * 4 + 3) if index == 0 else (number * 4 + index,))
                ),
            )
        )
        at = until
    return Batch(
        time_ms,
        BatchStatus.COMPLETED,
        records,
        submitted,
        started,
        ended,
        ended - time_ms + interval_ms - chance.randrange(interval_ms // 4 + 1),
        3,
        3 - failed,
        int(failed),
        TRACEBACK if failed else None,
        inputs if detailed else None,
        tuple(operations) if detailed else None,
        stages=(_stage(number, started, ended),) if detailed else (),
    )


def _stage(number: int, started: int, ended: int) -> StageRun:
    took = ended - started
    ran = started + took // 20
    longest = int(0.9 * took)
    return StageRun(
        number, started, ran, ended - took // 8, 4, 3 * took, took, took // 8, took // 5, 4000, longest, 1100
    )


def _job(job_id: int, time_ms: int, operation: int, at: int, until: int, *, failed: bool) -> JobInfo:
    ended = 3 if failed else 4
    return JobInfo(
        job_id,
        time_ms,
        operation,
        "FAILED" if failed else "SUCCEEDED",
        at,
        until,
        1,
        0 if failed else 1,
        int(failed),
        job_id % 2,
        4,
        ended,
        4 - ended,
    )


def _stream(number: int, now_ms: int, batches: int, problems: Mapping[int, str]) -> Stream:
    error = problems.get(number, "")
    info = ReceiverInfo(
        number,
        f"KafkaReceiver-{number}",
        error not in {"stopped", "given up"},
        f"worker-{number % 12:02d}.example",
        str(number % 12),
        "" if not error else f"cannot connect to <b>broker-{number}</b>",
        "" if not error else TRACEBACK,
        now_ms - 42_000 if error else -1,
        (PastError(now_ms - 90_000, "first <i>trouble</i>"), PastError(now_ms - 42_000, HOSTILE, TRACEBACK))
        if error
        else (),
        error == "unhealthy",
        error == "given up",
        3 if error == "lost" else 0,
        1200 if error == "lost" else 0,
        source=SourceStatus(1200 + number, 3.5, 0.8, redelivered=40, dead_letters=2 * bool(error)),
    )
    name = HOSTILE if error == "hostile" else f"KafkaReceiver-{number}" if number else "orders"
    limit = 1500.0 + 10 * (number % 11)
    changes = tuple(
        RateChange(now_ms - 1000 * (20 - step), limit - 20 * (19 - step), f"{limit:.6g}/s processed, {step}/s waiting")
        for step in range(20)
    )
    return Stream(
        number,
        name,
        "KafkaReceiver",
        True,
        info,
        1 + 3 * bool(error),
        4 * bool(error),
        batches * 900,
        limit,
        changes,
        TimeBudget(0.31, 0.42, 0.06, 0.04, 0.17) if number % 3 == 1 else TimeBudget(0.8, 0.0, 0.05, 0.03, 0.12),
    )


def graph() -> tuple[DStreamInfo, ...]:
    """A graph with a union, a window and four output operations, one of which is of a plugin's class."""
    return (
        DStreamInfo(0, "ReceiverInputDStream", "orders", "receiverStream at orders.py:12", (), 0, "input"),
        DStreamInfo(1, "ReceiverInputDStream", "", "receiverStream at orders.py:13", (), 1, "input"),
        DStreamInfo(2, "UnionDStream", "", "union at orders.py:15", (0, 1)),
        DStreamInfo(3, "MapPartitionsDStream", "<b>words</b>", "flatMap at orders.py:20", (2,)),
        DStreamInfo(4, "ShuffledDStream", "", "reduceByKey at orders.py:22", (3,)),
        DStreamInfo(5, "ForEachDStream", "", "write at orders.py:41", (4,), role="output"),
        DStreamInfo(6, "WindowedDStream", "", "window at orders.py:50", (3,)),
        DStreamInfo(7, "ForEachDStream", "", "pprint at orders.py:52", (6,), role="output"),
        DStreamInfo(8, "ForEachDStream", "", "saveAsTextFiles at orders.py:60", (4,), role="output"),
        DStreamInfo(9, "ForEachDataFrame", "", "foreachBatch at orders.py:70", (4,), role="output"),
    )


def snapshot(
    receivers: int = 1,
    completed: int = 120,
    *,
    interval_ms: int = 1000,
    slow: bool = False,
    problems: Mapping[int, str] | None = None,
    live: bool = True,
    details: int = 1000,
    start_ms: int = START_MS,
) -> Snapshot:
    """An application after its batch number ``completed``.

    Args:
        receivers: receiver streams.
        completed: retained completed batches; the next one is running and, when slow, more wait.
        interval_ms: the batch interval.
        slow: whether batches take longer than the interval.
        problems: by stream: ``stopped``, ``given up``, ``unhealthy``, ``lost`` blocks or a ``hostile`` name.
        live: whether the application runs.
        details: the newest batches that have inputs and operations.
        start_ms: when it started.
    """
    done = [
        _batch(number, receivers, interval_ms, slow, number >= completed - details, start_ms)
        for number in range(completed)
    ]
    later = [
        _batch(number, receivers, interval_ms, slow, True, start_ms)
        for number in range(completed, completed + (9 if slow else 1))
    ]
    running = later[0]
    first = running.operations[0] if running.operations else Operation(0)
    pending = [
        Batch(
            running.time_ms,
            BatchStatus.PROCESSING,
            running.records,
            running.submitted_ms,
            running.started_ms,
            None,
            None,
            3,
            0,
            0,
            None,
            running.inputs,
            (Operation(0, first.name, first.description, first.started_ms, None, None, first.jobs),),
        ),
        *(
            Batch(
                b.time_ms, BatchStatus.QUEUED, b.records, b.submitted_ms, None, None, None, 3, 0, 0, None, b.inputs, ()
            )
            for b in later[1:]
        ),
    ]
    now = (done[-1].ended_ms if done else None) or start_ms
    return Snapshot(
        version=completed,
        time_ms=now,
        is_live=live,
        started_ms=start_ms,
        application=Application(
            "app-20261122-0001", "Orders per region", interval_ms, "http://127.0.0.1:4040", "0.1.0"
        ),
        streams=tuple(_stream(number, now, completed, problems or {}) for number in range(receivers)),
        batches=(*done, *(pending if live else ())),
        totals=Totals(
            completed, sum(b.num_failed > 0 for b in done), sum(b.records for b in done), sum(b.records for b in done)
        ),
        storage=Storage(3_400_000, 12, 8_100_000, 120_000, 45_000, now - 900, 0, ""),
        listeners=(Listener("penstock_rate"), Listener("app.AuditListener", dropped=12)),
        graph=graph(),
    )
