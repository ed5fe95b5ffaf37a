"""The report of a period: one HTML file from an event log, which loads nothing, to attach to an incident."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib import resources
from typing import Any

from attrs import evolve, frozen
from markupsafe import Markup

from penstock import (
    BatchCompleted,
    BatchStarted,
    BatchSubmitted,
    ConfigurationError,
    OutputOperationCompleted,
    OutputOperationStarted,
    StoreTimes,
)
from penstock_ui.dashboard import units
from penstock_ui.dashboard.diagnosis import batch_parts, diagnose_batches, total_budget
from penstock_ui.dashboard.gantt import gantt
from penstock_ui.dashboard.measures import measures
from penstock_ui.dashboard.pages import environment
from penstock_ui.dashboard.query import Query
from penstock_ui.dashboard.timeline import Sample, Timeline
from penstock_ui.dashboard.triage import rank_batches, rank_outputs, rank_receivers
from penstock_ui.dashboard.verdict import Level, Verdict, judge
from penstock_ui.event_log import events_of
from penstock_ui.own_events import JobsRun, Sampled, StagesRun
from penstock_ui.snapshot import Batch, Snapshot, Stream, Totals, error_line
from penstock_ui.store import Limits, MetricsStore
from penstock_ui.time_budget import since, time_budget

_SLOWEST, _MOST_ERRORS, _MOST_STREAMS = 20, 50, 50
_WIDTH, _HEIGHT = 1000, 110
# More batches than a dashboard shows: a report is read once.
_LIMITS = Limits(batches=200_000, details=1_000_000)
_FOREVER_MS = 10**15
_OF_BATCHES = (
    BatchSubmitted,
    BatchStarted,
    BatchCompleted,
    OutputOperationStarted,
    OutputOperationCompleted,
    JobsRun,
    StagesRun,
)


@frozen
class Period:
    """The batches of a report: their batch times, ms since the epoch, both included."""

    first_ms: int = 0
    last_ms: int = _FOREVER_MS

    @classmethod
    def of(cls, first: str, last: str) -> Period:
        """Read two times in ISO form, such as ``2026-11-22T12:00``; an empty one is no limit.

        Raises:
            ConfigurationError: a time is not valid, or the period ends before it begins.
        """
        period = cls(_time_ms("--from", first, 0), _time_ms("--to", last, _FOREVER_MS))
        if period.last_ms < period.first_ms:
            raise ConfigurationError(f"--to {last} is before --from {first}: exchange them")
        return period


@frozen
class Failure:
    """Errors with one last line: how many, the first and the last time, where, and the traceback of the last."""

    line: str
    where: str
    count: int
    first_ms: int
    last_ms: int
    text: str


@frozen
class Chart:
    """A timeline: the path of the line, that of the band around it, the height of the interval, and labels."""

    title: str
    line: str
    band: str
    interval_y: float | None
    top: str


@frozen
class Report:
    """A report.

    Attributes:
        html: the file's content.
        batches: completed batches in the period.
        events: events of the log that were read.
        damaged: lines that are not events.
    """

    html: str
    batches: int
    events: int
    damaged: int


def _time_ms(option: str, text: str, default: int) -> int:
    if not text:
        return default
    try:
        # Without a zone, a time is local, as on the pages.
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(f"{option} {text!r} is not a time: write it like 2026-11-22T12:00") from None


def report(files: Iterable[bytes], period: Period) -> Report:
    """Write the report of a period from the contents of event log files.

    Raises:
        ConfigurationError: the log has no batch in the period.
    """
    store, events, damaged, is_over = MetricsStore(_LIMITS), 0, 0, False
    times: dict[int, list[StoreTimes]] = {}
    configuration: dict[str, str] = {}
    log_first_ms = 0
    for event in events_of(files):
        if event is None:
            damaged += 1
            continue
        events += 1
        # Batches of the period may end after it; receivers and storage stay as they were at its end.
        is_over = is_over or store.time_ms > period.last_ms
        if is_over and not isinstance(event, _OF_BATCHES):
            continue
        store.apply(event)
        log_first_ms = log_first_ms or store.time_ms
        configuration |= getattr(event, "configuration", {})
        if isinstance(event, Sampled) and period.first_ms <= event.time <= period.last_ms:
            for stream_id, reported in event.times.items():
                times.setdefault(stream_id, [reported, reported])[1] = reported
    store.ended()
    whole = store.snapshot()
    batches = tuple(b for b in whole.batches if period.first_ms <= b.time_ms <= period.last_ms)
    if not batches:
        raise ConfigurationError(
            f"no batch in this period: the log has batches from {units.clock_time(log_first_ms)} to "
            f"{units.clock_time(whole.time_ms)}. Choose --from and --to within it"
        )
    state = _within(whole, batches, times)
    html = environment().get_template("report.html").render(**_variables(state, configuration, damaged))
    return Report(html, len(state.completed), events, damaged)


def _within(whole: Snapshot, batches: tuple[Batch, ...], times: dict[int, list[StoreTimes]]) -> Snapshot:
    """The state with the batches of the period, and with its time budgets."""
    state = evolve(whole, batches=batches)
    completed = state.completed
    streams = []
    for stream in whole.streams:
        first, last = times.get(stream.id, (None, None))
        used = None if last is None else time_budget(since(None if first is last else first, last))
        records = sum(
            info.numRecords for batch in completed if (info := (batch.inputs or {}).get(stream.id)) is not None
        )
        streams.append(evolve(stream, budget=used, records=records))
    totals = Totals(
        len(completed),
        sum(batch.num_failed > 0 for batch in completed),
        sum(batch.records for batch in batches),
        sum(batch.records for batch in completed),
    )
    end_ms = max((batch.ended_ms or batch.time_ms for batch in batches), default=whole.time_ms)
    return evolve(state, time_ms=end_ms, streams=tuple(streams), totals=totals)


def _variables(state: Snapshot, configuration: dict[str, str], damaged: int) -> dict[str, Any]:
    interval_ms, now_ms = state.application.batch_interval_ms, state.time_ms
    completed = state.completed
    late = [batch for batch in completed if (batch.processing_delay_ms or 0) > interval_ms]
    slowest = sorted((row.batch for row in rank_batches(completed, _SLOWEST)), key=lambda batch: batch.time_ms)
    receivers = rank_receivers(state, now_ms)
    verdict = judge(state, now_ms)
    return {
        **_headline(verdict, len(late), len(completed), interval_ms),
        "snapshot": state,
        "interval": interval_ms,
        "now": now_ms,
        "css": _asset("dashboard.css"),
        "js": _asset("export.js"),
        "zone": units.zone(),
        "damaged": damaged,
        "verdict": verdict,
        "diagnosis": diagnose_batches(completed, interval_ms),
        "parts": batch_parts(total_budget(completed)),
        "late": late,
        "late_diagnosis": diagnose_batches(late, interval_ms) if late else None,
        "charts": _charts(completed, interval_ms),
        "first": units.batch_time(state.batches[0].time_ms, interval_ms),
        "last": units.batch_time(state.batches[-1].time_ms, interval_ms),
        "receivers": receivers[:_MOST_STREAMS],
        "num_receivers": len(receivers),
        "outputs": rank_outputs(completed),
        "slowest": rank_batches(completed, _SLOWEST),
        "failures": _failures(completed, state.streams)[:_MOST_ERRORS],
        "awaiting": [batch for batch in completed if batch.awaits_rerun],
        "configuration": sorted(configuration.items()),
        **gantt(evolve(state, batches=tuple(slowest)), Query(rows=_SLOWEST), now_ms),
    }


def _headline(verdict: Verdict, late: int, completed: int, interval_ms: int) -> dict[str, Any]:
    """Whether batches were too slow anywhere in the period, or else how its last batches did."""
    if late > 0.01 * completed:
        slow = f"{late:,} of {completed:,} batches took longer than the batch interval ({units.duration(interval_ms)})."
        return {"level": Level.BAD if 2 * late > completed else Level.WARNING, "headline": slow}
    return {"level": verdict.level, "headline": verdict.headline.replace("Ended. Its last batches: k", "K")}


def _asset(name: str) -> Markup:
    # Ends no element early: neither file has markup.
    return Markup((resources.files("penstock_ui.dashboard") / "static" / name).read_text(encoding="utf-8"))


def _charts(completed: Sequence[Batch], interval_ms: int) -> list[Chart]:
    shown = measures(interval_ms)
    timeline = Timeline(lambda batch: Sample(batch.time_ms, tuple(m.read(batch) for m in shown), batch.num_failed > 0))
    timeline.update(completed)
    points = timeline.points
    if not points:
        return []
    first, length = points[0].last, max(points[-1].last - points[0].last, 1)
    charts = []
    for index, measure in enumerate(shown):
        highest = max((point.high[index] or 0 for point in points), default=0)
        if measure.has_interval:
            highest = max(highest, interval_ms)
        scale = units.rate_scale(highest) if measure.is_rate else units.duration_scale(highest)

        def at(time_ms: int, value: float, end: float = scale.end) -> str:
            return f"{_WIDTH * (time_ms - first) / length:.1f},{_HEIGHT * (1 - value / end):.1f}"

        known = [point for point in points if point.mean[index] is not None]
        line = " ".join(at(point.last, point.mean[index] or 0) for point in known)
        above = [at(point.last, point.high[index] or 0) for point in known]
        below = [at(point.last, point.low[index] or 0) for point in reversed(known)]
        interval_y = _HEIGHT * (1 - interval_ms / scale.end) if measure.has_interval else None
        charts.append(Chart(measure.title, line, " ".join([*above, *below]), interval_y, scale.labels[-1]))
    return charts


def _failures(completed: Sequence[Batch], streams: Sequence[Stream]) -> list[Failure]:
    """Errors of batches and receivers, alike ones together, the newest first."""
    found = [
        (f"{operation.id}: {operation.name}", batch.time_ms, operation.failure)
        for batch in completed
        for operation in batch.operations or ()
        if operation.failure is not None
    ]
    found += [
        ("output operation", batch.time_ms, batch.first_failure)
        for batch in completed
        if batch.operations is None and batch.first_failure is not None
    ]
    first_ms = completed[0].time_ms if completed else 0
    for stream in streams:
        for error in () if stream.receiver is None else stream.receiver.recent_errors:
            if error.time >= first_ms:
                found.append((stream.name, error.time, f"{error.error}\n{error.message}".strip()))
    alike: dict[tuple[str, str], Failure] = {}
    for where, time_ms, text in sorted(found, key=lambda failure: failure[1]):
        line = error_line(text)
        before = alike.get((where, line))
        count, first = (1, time_ms) if before is None else (before.count + 1, before.first_ms)
        alike[where, line] = Failure(line, where, count, first, time_ms, text)
    return sorted(alike.values(), key=lambda failure: -failure.last_ms)
