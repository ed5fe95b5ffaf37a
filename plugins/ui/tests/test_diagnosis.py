"""The sentence that names the cause, for seeded incidents of receivers and batches."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from plugins.ui.tests.snapshots import snapshot

from penstock import SourceStatus
from penstock_ui.dashboard.diagnosis import Diagnosis, diagnose_receiver
from penstock_ui.dashboard.verdict import Level
from penstock_ui.snapshot import Snapshot
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
