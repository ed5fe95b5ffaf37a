"""Rate control of a simulated query whose capacity halves and doubles: batches settle, with each estimator."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import frozen

from penstock_structured import steer

INTERVAL_S, FIXED_S, WATCH_S = 1.0, 0.05, 0.1
CAPACITY = (10_000.0, 5_000.0, 10_000.0)
# Batches of each phase, and those that it may take to settle.
PHASE, SETTLING = 30, 12
FIRST_RATE = 2_000.0
EPOCH_S = 1_700_000_000.0


@frozen
class Batch:
    rows: int
    took_s: float


def simulated(blocks: Path, estimator: str) -> list[Batch]:
    """Run a query with triggers of 1 s over a receiver that stores what its rate permits."""
    listeners: list[Any] = []
    spark: Any = SimpleNamespace(streams=SimpleNamespace(addListener=listeners.append))
    query: Any = SimpleNamespace(id="q1")
    steer(spark, query, estimator, interval=INTERVAL_S)
    (listener,) = listeners
    chance, batches = random.Random(1), []
    rate, start_s, rows = FIRST_RATE, INTERVAL_S, FIRST_RATE * INTERVAL_S
    for capacity in CAPACITY:
        for _ in range(PHASE):
            took_s = (FIXED_S + rows / capacity) * chance.gauss(1.0, 0.02)
            batches.append(Batch(int(rows), took_s))
            listener.onQueryProgress(progress(blocks, batches[-1], start_s, rate))
            # A batch that took too long is followed at once.
            next_s = max(start_s + took_s, start_s + INTERVAL_S)
            changed_s = min(start_s + took_s + WATCH_S, next_s)
            before, rate = rate, listener.rates.get(str(blocks), rate)
            rows = before * (changed_s - start_s) + rate * (next_s - changed_s)
            start_s = next_s
    return batches


def progress(blocks: Path, batch: Batch, start_s: float, rate: float) -> Any:
    took_ms = round(batch.took_s * 1000)
    latest = {"block": 1, "blocks": str(blocks), "batchRows": batch.rows, "rows": 0, "rate": rate}
    return SimpleNamespace(
        progress=SimpleNamespace(
            id="q1",
            timestamp=datetime.fromtimestamp(EPOCH_S + start_s, UTC).isoformat(timespec="milliseconds"),
            durationMs={"triggerExecution": took_ms},
            batchDuration=took_ms,
            sources=[SimpleNamespace(latestOffset=json.dumps(latest))],
        )
    )


@pytest.mark.parametrize("estimator", ["pid", "model"])
def test_batches_settle_after_the_capacity_has_halved_and_doubled(tmp_path: Path, estimator: str) -> None:
    batches = simulated(tmp_path, estimator)
    for phase, capacity in enumerate(CAPACITY):
        settled = batches[phase * PHASE + SETTLING : (phase + 1) * PHASE]
        assert max(each.took_s for each in settled) < 1.25 * INTERVAL_S
        attainable = capacity * (INTERVAL_S - FIXED_S)
        assert sum(each.rows for each in settled) / len(settled) > 0.7 * attainable
