"""The Gantt chart of batches: a row for each, with its phases on one axis of time. Pure; the page draws it as HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from penstock_ui.dashboard.diagnosis import BATCH_PARTS
from penstock_ui.dashboard.query import Query
from penstock_ui.dashboard.units import batch_time, duration, duration_scale
from penstock_ui.snapshot import Batch, Snapshot

_FEWEST, _DEFAULT, _MOST = 5, 20, 320


@frozen
class Span:
    """A phase of a batch: its key in ``BATCH_PARTS``, and when it began and ended, in ms since the epoch."""

    key: str
    start_ms: int
    end_ms: int


@frozen
class Row:
    """A batch in the chart.

    Attributes:
        batch: the batch.
        spans: its phases; later ones lie on earlier ones.
        bars: key, left and width in percent of the axis, and text of each phase.
        total: from its batch time to its end, or up to now.
        pin: the address that pins it, or releases it.
        is_pinned: whether it is.
    """

    batch: Batch
    spans: tuple[Span, ...]
    bars: tuple[tuple[str, float, float, str], ...]
    total: str
    pin: str
    is_pinned: bool


def spans(batch: Batch, now_ms: int) -> tuple[Span, ...]:
    """The phases of a batch; one that has not ended lasts until now."""
    found = [Span("generation", batch.time_ms, max(batch.submitted_ms or now_ms, batch.time_ms))]
    if batch.submitted_ms is not None:
        found.append(Span("waiting", batch.submitted_ms, batch.started_ms or now_ms))
    if batch.started_ms is not None:
        has_jobs = any(operation.jobs for operation in batch.operations or ())
        found.append(Span("output" if has_jobs else "operations", batch.started_ms, batch.ended_ms or now_ms))
    for operation in batch.operations or ():
        for job in operation.jobs:
            if job.submitted_ms is not None:
                key = "scheduling" if batch.stages else "tasks"
                found.append(Span(key, job.submitted_ms, job.completed_ms or batch.ended_ms or now_ms))
    for stage in batch.stages:
        if stage.first_task_ms is not None and stage.completed_ms is not None:
            found.append(Span("tasks", stage.first_task_ms, stage.completed_ms))
    return tuple(span for span in found if span.end_ms > span.start_ms)


def gantt(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """The variables of the chart: the newest batches, or those up to the argument ``to``, and the pinned one."""
    interval_ms = snapshot.application.batch_interval_ms
    rows = min(max(query.rows or _DEFAULT, _FEWEST), _MOST)
    shown = [batch for batch in snapshot.batches if not query.last or batch.time_ms <= query.last][-rows:]
    pinned = None if query.id is None else snapshot.batch(query.id)
    is_aligned = query.show != "clock"
    drawn = [*([] if pinned is None or pinned in shown else [pinned]), *shown]
    phases = {batch.time_ms: spans(batch, now_ms) for batch in drawn}
    if is_aligned:
        longest = max((span.end_ms - time_ms for time_ms, found in phases.items() for span in found), default=1)
        scale = duration_scale(max(longest, interval_ms))
        first, length = 0, scale.end
        ticks = [(100 * tick / length, label) for tick, label in zip(scale.ticks, scale.labels, strict=True)]
    else:
        first = min((batch.time_ms for batch in shown), default=0)
        last = max((span.end_ms for batch in shown for span in phases[batch.time_ms]), default=first + 1)
        length = max(last - first, 1)
        ticks = [(25 * n, batch_time(round(first + length * n / 4), interval_ms, with_date=False)) for n in range(4)]
    newest = snapshot.batches[-1].time_ms if snapshot.batches else 0
    times = [batch.time_ms for batch in snapshot.batches]
    older = [time_ms for time_ms in times if shown and time_ms < shown[0].time_ms]
    newer = [time_ms for time_ms in times if shown and time_ms > shown[-1].time_ms]
    return {
        "gantt_rows": [
            _row(batch, phases[batch.time_ms], query, now_ms, batch.time_ms if is_aligned else first, length)
            for batch in reversed(drawn)
        ],
        "gantt_ticks": ticks,
        "gantt_interval": 100 * interval_ms / length if is_aligned and interval_ms <= length else None,
        "gantt_data": _data(drawn, phases),
        "gantt_names": BATCH_PARTS,
        "gantt_keys": {span.key for found in phases.values() for span in found},
        "is_aligned": is_aligned,
        "is_following": not query.last,
        "pinned": pinned,
        "tools": {
            "in": evolve(query, rows=max(rows // 2, _FEWEST)).address() if rows > _FEWEST else None,
            "out": evolve(query, rows=min(rows * 2, _MOST)).address() if rows < _MOST and older else None,
            "older": evolve(query, last=older[-1]).address() if older else None,
            "newer": evolve(query, last=newer[min(rows, len(newer)) - 1]).address() if newer else None,
            "follow": evolve(query, last=0).address() if query.last else None,
            "hold": evolve(query, last=newest).address() if not query.last and newest else None,
            "align": evolve(query, show="clock" if is_aligned else "").address(),
        },
    }


def _row(batch: Batch, found: Sequence[Span], query: Query, now_ms: int, first: float, length: float) -> Row:
    bars = []
    for span in found:
        left = min(max(100 * (span.start_ms - first) / length, 0.0), 100.0)
        width = min(100 * (span.end_ms - span.start_ms) / length, 100.0 - left)
        bars.append((span.key, left, width, f"{BATCH_PARTS[span.key]}: {duration(span.end_ms - span.start_ms)}"))
    is_pinned = query.id == batch.time_ms
    total = duration(max((batch.ended_ms or now_ms) - batch.time_ms, 0))
    pin = evolve(query, id=None if is_pinned else batch.time_ms).address()
    return Row(batch, tuple(found), tuple(bars), total, pin, is_pinned)


def _data(drawn: Sequence[Batch], phases: dict[int, tuple[Span, ...]]) -> str:
    """The chart as JSON, for export: one object per batch."""
    return json.dumps(
        [
            {
                "batchTime": batch.time_ms,
                "records": batch.records,
                "failed": batch.num_failed > 0,
                "phases": [{"phase": s.key, "start": s.start_ms, "end": s.end_ms} for s in phases[batch.time_ms]],
            }
            for batch in drawn
        ],
        separators=(",", ":"),
    )
