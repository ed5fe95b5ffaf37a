"""What costs or lags most, ranked: receivers, outputs and batches. Pure functions of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import Any

from attrs import frozen

from penstock_ui.batch_budget import batch_budget
from penstock_ui.dashboard.diagnosis import (
    Diagnosis,
    Part,
    batch_load,
    batch_parts,
    diagnose_batches,
    diagnose_receiver,
    receiver_parts,
    total_budget,
)
from penstock_ui.dashboard.gantt import gantt
from penstock_ui.dashboard.query import Query
from penstock_ui.dashboard.verdict import RECENT, Level, judge, receiver_problem
from penstock_ui.snapshot import Batch, Snapshot, Stream

#: Rows of each ranking.
TOP = 8
_ORDER = {Level.BAD: 0, Level.WARNING: 1, Level.UNKNOWN: 2, Level.GOOD: 3}


@frozen
class RankedReceiver:
    """A receiver, and its problem or the largest part of its time."""

    stream: Stream
    level: Level
    cause: str
    advice: str

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where its time goes."""
        return receiver_parts(self.stream)


@frozen
class RankedOutput:
    """An output operation in the last batches: its mean and longest time in ms, its share of all, and its failures."""

    id: int
    name: str
    mean_ms: float
    longest_ms: int
    longest_batch: int
    share: float
    failed: int = 0


@frozen
class RankedBatch:
    """A batch, the parts of its time, and the largest of them."""

    batch: Batch
    parts: tuple[Part, ...]
    largest: str


def triage(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """The page that answers why: causes, rankings, and the Gantt chart of the last batches."""
    interval_ms = snapshot.application.batch_interval_ms
    return {
        "verdict": judge(snapshot, now_ms),
        "diagnosis": diagnose_batches(snapshot.completed[-RECENT:], interval_ms),
        "parts": batch_parts(total_budget(snapshot.completed[-RECENT:])),
        "receivers": rank_receivers(snapshot, now_ms)[:TOP],
        "outputs": rank_outputs(snapshot.completed[-RECENT:])[:TOP],
        "slowest": rank_batches(snapshot.completed),
        "failed": [batch for batch in snapshot.completed if batch.awaits_rerun][:TOP],
        "num_failed": sum(batch.awaits_rerun for batch in snapshot.completed),
        **gantt(snapshot, query, now_ms),
    }


def rank_receivers(snapshot: Snapshot, now_ms: int) -> list[RankedReceiver]:
    """Receivers by severity, then by how far they are behind their sources, then by the time they lose."""
    load = batch_load(snapshot)
    ranked = [_receiver(snapshot, stream, now_ms, load) for stream in snapshot.receivers]
    return sorted(ranked, key=lambda row: (_ORDER[row.level], -_lag(row.stream), -_lost(row.stream), row.stream.id))


def _receiver(snapshot: Snapshot, stream: Stream, now_ms: int, load: float) -> RankedReceiver:
    problem = receiver_problem(stream, now_ms, is_live=snapshot.is_live)
    diagnosis = diagnose_receiver(snapshot, stream, load) or Diagnosis(Level.UNKNOWN, "", "Its time is not known yet.")
    if problem is not None and _ORDER[problem.level] < _ORDER[diagnosis.level]:
        return RankedReceiver(stream, problem.level, f"{stream.name}: {problem.reason}.", "")
    return RankedReceiver(stream, diagnosis.level, diagnosis.cause, diagnosis.advice)


def _lag(stream: Stream) -> float:
    source = None if stream.receiver is None else stream.receiver.source
    return 0.0 if source is None else source.lag_s or source.lag_messages or 0.0


def _lost(stream: Stream) -> float:
    return 0.0 if stream.budget is None else 1 - stream.budget.source - stream.budget.code


def rank_outputs(batches: Sequence[Batch]) -> list[RankedOutput]:
    """Output operations by their time in some batches."""
    runs: dict[int, list[tuple[int, Batch]]] = {}
    names: dict[int, str] = {}
    failed: dict[int, int] = {}
    for batch in batches:
        for operation in batch.operations or ():
            names[operation.id] = operation.name
            failed[operation.id] = failed.get(operation.id, 0) + (operation.failure is not None)
            if operation.duration_ms is not None:
                runs.setdefault(operation.id, []).append((operation.duration_ms, batch))
    total = sum(ms for took in runs.values() for ms, _batch in took)
    ranked = []
    for id_, took in runs.items():
        longest_ms, longest = max(took, key=lambda run: run[0])
        all_ms = sum(ms for ms, _batch in took)
        share = all_ms / total if total else 0.0
        ranked.append(
            RankedOutput(id_, names[id_], all_ms / len(took), longest_ms, longest.time_ms, share, failed[id_])
        )
    return sorted(ranked, key=lambda output: (-output.share, output.id))


def rank_batches(batches: Sequence[Batch], count: int = TOP) -> list[RankedBatch]:
    """The slowest of some completed batches, by the time from their batch time to their end."""
    took = [((b.ended_ms or b.time_ms) - b.time_ms, b.time_ms, number) for number, b in enumerate(batches)]
    return [_batch(batches[number]) for _ms, _time, number in nlargest(count, took)]


def _batch(batch: Batch) -> RankedBatch:
    parts = batch_parts(batch_budget(batch))
    largest = max(parts, key=lambda part: part.share, default=None)
    return RankedBatch(batch, parts, "-" if largest is None else f"{largest.name}, {largest.text}")
