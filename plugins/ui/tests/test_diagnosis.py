"""The sentence that names the cause, for seeded incidents of receivers and batches."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from plugins.ui.tests.snapshots import START_MS, snapshot

from penstock import SourceStatus
from penstock_ui.dashboard.diagnosis import Diagnosis, batch_parts, diagnose_batches, diagnose_receiver, total_budget
from penstock_ui.dashboard.verdict import Level
from penstock_ui.snapshot import Batch, BatchStatus, Operation, Snapshot
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.spark_stages import StageRun
from penstock_ui.time_budget import TimeBudget


def of_receiver(budget: TimeBudget, state: Snapshot | None = None, **changes: Any) -> Diagnosis:
    state = state or snapshot(completed=40)
    stream = state.streams[0]
    assert stream.receiver is not None
    stream = evolve(stream, budget=budget, receiver=evolve(stream.receiver, **changes))
    diagnosis = diagnose_receiver(state, stream)
    assert diagnosis is not None
    return diagnosis


def silent(state: Snapshot) -> Snapshot:
    return evolve(state, batches=tuple(evolve(batch, records=0, inputs={}) for batch in state.batches))


def test_receiver_that_waits_for_its_source_and_gets_records_is_well() -> None:
    diagnosis = of_receiver(TimeBudget(0.9, code=0.1), source=None)
    assert diagnosis.level is Level.GOOD
    assert diagnosis.sentence == "orders waits for its source for 90% of its time: it gets all that comes."


def test_silent_source() -> None:
    diagnosis = of_receiver(TimeBudget(), silent(snapshot(completed=40)), source=None)
    assert diagnosis.level is Level.WARNING
    assert diagnosis.cause == (
        "The source of orders is silent: it waits for its source for 100% of its time, and the last 20 batches had "
        "none of its records."
    )
    assert diagnosis.advice == "Look at the source, its address and its subscription."


def test_receiver_that_fails_is_not_called_silent() -> None:
    state = silent(snapshot(completed=40))
    error = {"lastErrorMessage": "ConnectionError: refused\nby the broker"}
    failing = of_receiver(TimeBudget(), state, source=None, **error, lastErrorTime=state.completed[-20].time_ms)
    assert failing.level is Level.WARNING
    assert failing.cause == "orders stored nothing in the last 20 batches. Its last error: ConnectionError: refused."
    assert failing.advice == "Its page has the traceback."
    before = of_receiver(TimeBudget(), state, source=None, **error, lastErrorTime=state.completed[-20].time_ms - 1)
    assert "is silent" in before.cause


def test_rate_limit_too_low() -> None:
    diagnosis = of_receiver(TimeBudget(0.05, limiter=0.9, code=0.05))
    assert diagnosis.level is Level.WARNING
    assert diagnosis.cause == "The rate limit (1,500 records/s) holds orders back for 90% of its time."
    assert "Batches use only" in diagnosis.advice
    assert "raise spark.streaming.receiver.maxRate" in diagnosis.advice


def test_rate_limit_that_protects_slow_batches_is_not_to_be_raised() -> None:
    diagnosis = of_receiver(TimeBudget(0.05, limiter=0.9, code=0.05), snapshot(completed=40, slow=True))
    assert "make them cheaper, and the limit rises" in diagnosis.advice
    assert "maxRate" not in diagnosis.advice


def test_full_disk() -> None:
    error = "the disk is full: the receiver pauses until there is room: [Errno 28] No space left on device"
    diagnosis = of_receiver(TimeBudget(0.0, disk=0.98, code=0.02), lastErrorMessage=error)
    assert diagnosis.level is Level.BAD
    assert diagnosis.cause == "orders waits for space on the full disk of worker-00.example for 98% of its time."
    assert diagnosis.advice.startswith("Free space there")


def test_slow_disk() -> None:
    diagnosis = of_receiver(TimeBudget(0.2, disk=0.7, code=0.1))
    assert diagnosis.sentence.startswith("orders waits for the disk of worker-00.example for 70% of its time.")


def test_slow_driver() -> None:
    diagnosis = of_receiver(TimeBudget(0.2, driver=0.7, code=0.1))
    assert diagnosis.cause == "orders waits for the driver to acknowledge its blocks for 70% of its time."


def test_broker_lag() -> None:
    diagnosis = of_receiver(TimeBudget(0.9, code=0.1), source=SourceStatus(90_000, 240.0))
    assert diagnosis.level is Level.WARNING
    assert diagnosis.cause == "orders is 4.0 min behind its broker, and waits for it for 90% of its time."


@pytest.mark.parametrize(("code", "level"), [(0.95, Level.WARNING), (0.6, Level.GOOD)])
def test_busy_receiver(code: float, level: Level) -> None:
    diagnosis = of_receiver(TimeBudget(1 - code, code=code))
    assert diagnosis.level is level
    assert diagnosis.cause == f"orders computes for {code:.0%} of its time."
    assert bool(diagnosis.advice) is (level is Level.WARNING)


def test_nothing_is_said_of_a_receiver_that_has_not_reported() -> None:
    state = snapshot()
    assert diagnose_receiver(state, evolve(state.streams[0], budget=None)) is None
    assert diagnose_receiver(state, evolve(state.streams[0], receiver=None)) is None


# -- batches --


def batches(*, job_ms: int, output_ms: int = 0, number: int = 20, **stage: Any) -> list[Batch]:
    """Batches of a second: a stage of four tasks, whose metrics are ``stage``, then ``output_ms`` in the driver."""
    made = []
    for index in range(number):
        time_ms = START_MS + 1000 * index
        started, job_end = time_ms + 10, time_ms + 10 + job_ms
        job = JobInfo(index, time_ms, 1, "SUCCEEDED", started, job_end)
        quick = Operation(0, "pprint at orders.py:52", "", started, started + 1)
        operation = Operation(1, "write at orders.py:41", "", started + 1, job_end + output_ms, None, (job,))
        run = StageRun(index, started, started + 5, job_end - 5, **{"tasks": 4, **stage}) if stage else None
        made.append(
            Batch(
                time_ms,
                BatchStatus.COMPLETED,
                1000,
                time_ms + 4,
                started,
                job_end + output_ms,
                operations=(quick, operation),
                stages=() if run is None else (run,),
            )
        )
    return made


def cause(found: list[Batch]) -> str:
    diagnosis = diagnose_batches(found, 1000)
    assert diagnosis is not None
    return diagnosis.sentence


EVEN = {"run_ms": 4000, "cpu_ms": 400, "longest_ms": 1100, "longest_bytes": 260, "read_bytes": 1000}


def test_slow_sink_that_tasks_write_to() -> None:
    found = cause(batches(job_ms=1200, **EVEN))
    assert found.startswith("Python functions take 89% of the time of batches, most of it in output operation 1 (write")
    assert "batch the calls of a sink" in found


def test_slow_sink_that_the_driver_writes_to() -> None:
    found = cause(batches(job_ms=100, output_ms=1500, run_ms=200, cpu_ms=100))
    assert found.startswith("Output operations spend 94% of the time of batches in the driver, outside of Spark's jobs")
    assert "write from the tasks" in found


def test_skewed_key() -> None:
    skewed = {"run_ms": 1300, "longest_ms": 1000, "read_bytes": 1000, "longest_bytes": 850}
    assert cause(batches(job_ms=1200, **skewed)).startswith(
        "One task takes 10 times as long as the others of its stage, because it reads 85% of the data: a key is skewed."
    )


def test_odd_figures_of_spark_are_no_error() -> None:
    odd = {"run_ms": 1300, "longest_ms": 1000, "read_bytes": 0, "longest_bytes": 850}
    assert "because it reads 100% of the data" in cause(batches(job_ms=1200, **odd))


def test_slow_executor() -> None:
    slow = {"run_ms": 1300, "longest_ms": 1000, "read_bytes": 1000, "longest_bytes": 250}
    where: dict[str, Any] = {"longest_executor": "3", "longest_host": "worker-03"}
    assert cause(batches(job_ms=1200, **slow, **where)).startswith(
        "One task takes 10 times as long as the others of its stage, nearly always on executor 3 on worker-03: that "
        "executor is slow."
    )


def test_long_tasks_on_changing_executors() -> None:
    slow = {"run_ms": 1300, "longest_ms": 1000, "read_bytes": 1000, "longest_bytes": 250}
    found = [batch for n in range(5) for batch in batches(job_ms=1200, number=4, longest_executor=str(n), **slow)]
    assert "with as much data and on changing executors" in cause(found)


def test_garbage_collection() -> None:
    found = cause(batches(job_ms=1500, **{**EVEN, "gc_ms": 1600}))
    assert found.startswith("Garbage collection takes 40% of the time of batches.")
    assert "spark.executor.memory" in found


def test_shuffle() -> None:
    assert cause(batches(job_ms=1500, **{**EVEN, "shuffle_ms": 3000})).startswith("Shuffling takes 74% of the time")


def test_spark_without_free_slots() -> None:
    waiting = [
        evolve(batch, stages=tuple(evolve(stage, first_task_ms=batch.time_ms + 1400) for stage in batch.stages))
        for batch in batches(job_ms=1500, **EVEN)
    ]
    assert cause(waiting).startswith("Spark's scheduling takes 93% of the time of batches.")


def test_busy_driver() -> None:
    times = [(batch, batch.time_ms + 900) for batch in batches(job_ms=2)]
    late = [evolve(batch, submitted_ms=at, started_ms=at, ended_ms=at + 50, operations=()) for batch, at in times]
    assert cause(late).startswith("Generating jobs takes ")


def test_waiting_batches_are_explained_by_what_the_batches_before_them_do() -> None:
    behind = [
        evolve(
            batch,
            submitted_ms=batch.time_ms + 4 - 60_000,
            time_ms=batch.time_ms - 60_000,
        )
        for batch in batches(job_ms=1200, **EVEN)
    ]
    assert cause(behind).startswith("Python functions take 89%")
    parts = batch_parts(total_budget(behind))
    assert max(parts, key=lambda part: part.share).name == "waiting for earlier batches"


def test_batches_that_keep_up_need_no_advice_and_without_batches_nothing_is_said() -> None:
    quick = diagnose_batches(batches(job_ms=200, **EVEN), 1000)
    assert quick is not None
    assert quick.level is Level.GOOD
    assert diagnose_batches([], 1000) is None
    assert batch_parts(None) == ()


def test_without_stages_the_part_of_the_tasks_is_not_divided() -> None:
    assert cause(batches(job_ms=1200)).startswith("Tasks take 100% of")
