"""The variables of each page's templates: pure functions of a snapshot, a query and the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from penstock_ui.batch_budget import batch_budget
from penstock_ui.dashboard.diagnosis import batch_parts, diagnose_batches, diagnose_receiver, receiver_parts
from penstock_ui.dashboard.graph_layout import BOX_HEIGHT, BOX_WIDTH, WIDEST, grouped, in_a_list, in_rows
from penstock_ui.dashboard.measures import capacity, measured, measures
from penstock_ui.dashboard.query import Query, tabulate
from penstock_ui.dashboard.timeline import sparkline
from penstock_ui.dashboard.verdict import (
    RECENT,
    Level,
    ReceiverProblem,
    Verdict,
    judge,
    lateness,
    receiver_problem,
    receiver_problems,
)
from penstock_ui.snapshot import Batch, Distribution, Snapshot, Stream

#: Batches of the small chart of a stream.
SPARK_BATCHES = 60
BOX = (BOX_WIDTH, BOX_HEIGHT)
_ROWS, _OVERVIEW_ROWS, _MAX_INPUTS, _MAX_JOBS = 50, 10, 100, 100


@frozen
class StreamRow:
    """A stream in a table."""

    stream: Stream
    current: float | None
    problem: ReceiverProblem | None
    average: float | None = None
    line: str = ""
    used: str = "-"
    capacity: float | None = None


def overview(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """The first page: verdict, measures, streams (those with problems first) and the newest batches."""
    problems = receiver_problems(snapshot, now_ms)
    first = {problem.stream.id: problem.stream for problem in problems[:_OVERVIEW_ROWS]}
    for stream in snapshot.streams:
        if len(first) >= _OVERVIEW_ROWS:
            break
        first.setdefault(stream.id, stream)
    newest = snapshot.completed[-_OVERVIEW_ROWS:][::-1]
    return {
        "verdict": judge(snapshot, now_ms),
        "diagnosis": diagnose_batches(snapshot.completed[-RECENT:], snapshot.application.batch_interval_ms),
        "late": lateness(snapshot, now_ms),
        "problems": problems,
        "limit": _limit_of_all(snapshot),
        "current_rate": _current(snapshot, None),
        "measures": measures(snapshot.application.batch_interval_ms),
        "spreads": {
            "scheduling": snapshot.scheduling_delay,
            "processing": snapshot.processing_delay,
            "total": snapshot.total_delay,
        },
        "rates": _rates(snapshot),
        "rows": [_filled(snapshot, _row(snapshot, stream, now_ms)) for stream in first.values()],
        "newest": newest,
        "any_failed": any(batch.first_failure for batch in newest),
        "limit_rows": _OVERVIEW_ROWS,
    }


def streams(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """Every stream, in pages."""
    rows = [_row(snapshot, stream, now_ms) for stream in snapshot.streams]
    if query.show == "problems":
        rows = [row for row in rows if row.problem]
    if query.text:
        rows = [row for row in rows if query.text.lower() in _searchable(row.stream)]
    keys = {
        # Streams with problems first, the worst on top.
        "name": lambda row: (_severity(row), -row.stream.id),
        "rate": lambda row: row.current,
        "limit": lambda row: row.stream.rate_limit,
        "error": lambda row: row.stream.receiver.lastErrorTime if row.stream.receiver else -1,
    }
    table = tabulate(rows, query, keys, _ROWS, descending=True)
    return {
        "table": table,
        "rows": [_filled(snapshot, row) for row in table.rows],
        "problems": receiver_problems(snapshot, now_ms),
    }


def stream(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """One stream: rate, limit, reasons, errors."""
    chosen = None if query.id is None else snapshot.stream(query.id)
    if chosen is None:
        return {"stream": None}
    errors = []
    if chosen.receiver is not None:
        errors = list(chosen.receiver.recent_errors[::-1])
    row = _filled(snapshot, _row(snapshot, chosen, now_ms))
    return {
        "parts": receiver_parts(chosen),
        "diagnosis": diagnose_receiver(snapshot, chosen),
        "stream": chosen,
        "problem": row.problem,
        "current": row.current,
        "average": row.average,
        "capacity": _recent_capacity(snapshot, chosen.id),
        "errors": errors,
    }


def batches(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """Batches by status, in pages."""
    kinds: dict[str, tuple[str, Sequence[Batch]]] = {
        "": ("Completed Batches", snapshot.completed),
        "failed": ("Failed Batches", tuple(batch for batch in snapshot.completed if batch.num_failed)),
        "running": ("Running Batches", snapshot.running),
        "waiting": ("Waiting Batches", snapshot.waiting),
    }
    show = query.show if query.show in kinds else ""
    heading, selected = kinds[show]
    if query.first or query.last:
        last = query.last or now_ms
        selected = [batch for batch in selected if query.first <= batch.time_ms <= last]
    keys = {
        "time": lambda batch: batch.time_ms,
        "records": lambda batch: batch.records,
        "scheduling": lambda batch: batch.scheduling_delay_ms,
        "processing": lambda batch: batch.processing_delay_ms,
        "total": lambda batch: batch.total_delay_ms,
        "latency": lambda batch: batch.latency_ms,
    }
    table = tabulate(selected, query, keys, _ROWS, descending=True)
    is_pending = show in {"running", "waiting"}
    failed = any(batch.first_failure for batch in table.rows)
    return {
        "heading": heading,
        "choices": [(value, text) for value, (text, _) in kinds.items()],
        "table": table,
        "rows": table.rows,
        "columns": ("status",) if is_pending else ("total", "latency", "error") if failed else ("total", "latency"),
    }


def batch(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """One batch: delays, output operations, input."""
    times = [retained.time_ms for retained in snapshot.batches]
    chosen = None if query.id is None else snapshot.batch(query.id)
    if chosen is None:
        return {"batch": None}
    place = times.index(chosen.time_ms)
    names = {stream.id: stream.name for stream in snapshot.streams}
    inputs = sorted((chosen.inputs or {}).values(), key=lambda info: (-info.numRecords, info.inputStreamId))
    return {
        "batch": chosen,
        "parts": batch_parts(batch_budget(chosen)),
        "op_rows": [
            (operation, operation.jobs[:_MAX_JOBS], max(len(operation.jobs) - _MAX_JOBS, 0))
            for operation in chosen.operations or ()
        ],
        "has_jobs": any(operation.jobs for operation in chosen.operations or ()),
        "older": times[place - 1] if place else None,
        "newer": times[place + 1] if place + 1 < len(times) else None,
        "inputs": [
            (names.get(info.inputStreamId, f"stream {info.inputStreamId}"), info) for info in inputs[:_MAX_INPUTS]
        ],
        "inputs_total": len(inputs),
    }


def rates(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """Rate control: measured rate, limit, capacity, reasons."""
    rows = [_row(snapshot, receiver, now_ms) for receiver in snapshot.receivers]
    keys = {
        "name": lambda row: -row.stream.id,
        "rate": lambda row: row.current,
        "limit": lambda row: row.stream.rate_limit,
        "used": lambda row: _share(row.current, row.stream.rate_limit),
    }
    table = tabulate(rows, query, keys, _ROWS, descending=True)
    recent = snapshot.completed[-RECENT:]
    took = Distribution.of(batch.processing_delay_ms for batch in recent)
    load = None if took is None else took.mean / snapshot.application.batch_interval_ms
    table_rows = []
    for row in table.rows:
        share = _share(row.current, row.stream.rate_limit)
        used = "-" if share is None else f"{share:.0%}"
        table_rows.append(
            StreamRow(
                row.stream, row.current, row.problem, used=used, capacity=_recent_capacity(snapshot, row.stream.id)
            )
        )
    return {
        "control": _judge_control(rows, load),
        "current_rate": _current(snapshot, None),
        "limit": _limit_of_all(snapshot),
        "capacity": _recent_capacity(snapshot, None),
        "load": "-" if load is None else f"{load:.0%}",
        "table": table,
        "rows": table_rows,
    }


def graph(snapshot: Snapshot, query: Query, now_ms: int) -> dict[str, Any]:
    """The DStream graph as a picture."""
    groups = grouped(snapshot.graph)
    rows, in_list = in_rows(groups), in_a_list(groups)
    with_problems = {problem.stream.id for problem in receiver_problems(snapshot, now_ms)}
    nodes = []
    for group in groups:
        info = group.streams[0]
        role: str = info.role
        if any(stream.stream_id in with_problems for stream in group.streams):
            role += " problem"
        kind = info.type.removesuffix("DStream")
        operation, _, at = info.call_site.partition(" at ")
        several = f" ({len(group.streams):,})" if len(group.streams) > 1 else ""
        name = operation or kind if several else info.name or operation or kind
        nodes.append(
            {
                "box": rows.places[group.number],
                "item": in_list.places[group.number],
                "role": role,
                "name": _cut(name, 24 - len(several)) + several,
                "detail": _cut(f"{kind}, {at}" if at else kind, 28),
                "title": "\n".join(f"{stream.number}: {stream.type} {stream.name}" for stream in group.streams[:20])
                + f"\n{info.call_site}",
            }
        )
    return {"boxes": rows, "list": in_list, "nodes": nodes, "has_boxes": rows.columns <= WIDEST, "box": BOX}


def _row(snapshot: Snapshot, stream: Stream, now_ms: int) -> StreamRow:
    return StreamRow(stream, _current(snapshot, stream.id), receiver_problem(stream, now_ms, is_live=snapshot.is_live))


def _filled(snapshot: Snapshot, row: StreamRow) -> StreamRow:
    interval_ms = snapshot.application.batch_interval_ms
    seen = [measured(batch, row.stream.id, interval_ms) for batch in snapshot.completed[-SPARK_BATCHES:]]
    values = [value for value in seen if value is not None]
    average = sum(values) / len(values) if values else None
    return StreamRow(row.stream, row.current, row.problem, average, sparkline(seen, 130, 26))


def _current(snapshot: Snapshot, stream_id: int | None) -> float | None:
    """The rate in the newest batch whose input is known, including waiting batches."""
    for batch in reversed(snapshot.batches):
        if stream_id is None or batch.inputs is not None:
            return measured(batch, stream_id, snapshot.application.batch_interval_ms)
    return None


def _limit_of_all(snapshot: Snapshot) -> float | None:
    limits = [receiver.rate_limit for receiver in snapshot.receivers]
    set_limits = [limit for limit in limits if limit is not None]
    return sum(set_limits) if set_limits and len(set_limits) == len(limits) else None


def _recent_capacity(snapshot: Snapshot, stream_id: int | None) -> float | None:
    seen = [capacity(batch, stream_id) for batch in snapshot.completed[-RECENT:]]
    capacities = sorted(value for value in seen if value is not None)
    return capacities[len(capacities) // 2] if capacities else None


def _rates(snapshot: Snapshot) -> dict[str, float | None]:
    seen = [batch.records for batch in snapshot.batches]
    scale = 1000 / snapshot.application.batch_interval_ms
    if not seen:
        return {"mean": None, "maximum": None}
    return {"mean": sum(seen) / len(seen) * scale, "maximum": max(seen) * scale}


def _judge_control(rows: Sequence[StreamRow], load: float | None) -> Verdict:
    if not rows:
        return Verdict(Level.UNKNOWN, "No receiver, so no rate to control.")
    limited = [row for row in rows if row.stream.rate_limit is not None]
    if not limited:
        level = Level.WARNING if load is not None and load > 1 else Level.UNKNOWN
        return Verdict(level, "Receivers are not limited: backpressure is off and no maximum is set.")
    held = sum((_share(row.current, row.stream.rate_limit) or 0) >= 0.9 for row in limited)
    if held:
        which = (
            "Its limit holds the receiver back."
            if len(rows) == 1
            else f"Limits hold back {held} of {len(rows)} receivers."
        )
        return Verdict(Level.WARNING, which)
    return Verdict(Level.GOOD, "Limits hold back no receiver: the sources send less than they may.")


def _share(current: float | None, limit: float | None) -> float | None:
    return None if current is None or not limit else current / limit


def _severity(row: StreamRow) -> int:
    if row.problem is None:
        return 0
    return 2 if row.problem.level is Level.BAD else 1


def _searchable(stream: Stream) -> str:
    info = stream.receiver
    words = [stream.name, stream.type]
    if info is not None:
        words += [info.name, info.location, info.lastErrorMessage]
    return " ".join(words).lower()


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
