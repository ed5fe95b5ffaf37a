"""The three answers at the top of the pages: is it keeping up, how late is the data, which receivers have problems.

Pure functions of a snapshot and the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum

from attrs import frozen

from penstock_ui.dashboard.units import count, duration, percentile, plural, rate
from penstock_ui.snapshot import Batch, Distribution, Snapshot, Stream

#: Completed batches that the verdict looks at.
RECENT = 20
#: Time for which an error of a receiver that is active again counts as a problem.
_ERROR_IS_RECENT_MS = 600_000


class Level(Enum):
    """Severity; the value is the CSS class."""

    UNKNOWN = "unknown"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@frozen
class Verdict:
    """Whether the application keeps up.

    Attributes:
        level: the severity.
        headline: one sentence.
        limits: bottlenecks and problems, one sentence each, the most important first.
    """

    level: Level
    headline: str
    limits: tuple[str, ...] = ()


@frozen
class Lateness:
    """The age of the data when it has been processed.

    Attributes:
        level: the severity.
        typical_ms: median of the recent batches; ``None`` without data.
        high_ms: the 95th percentile.
        explanation: definition of the measured value.
    """

    level: Level
    typical_ms: int | None
    high_ms: int | None
    explanation: str


@frozen
class ReceiverProblem:
    """A receiver that needs attention."""

    stream: Stream
    level: Level
    reason: str


def judge(snapshot: Snapshot, now_ms: int) -> Verdict:
    """Answer whether the application keeps up, and what limits it if not.

    Args:
        snapshot: the state to judge.
        now_ms: the current time; for a finished application, the time of its last event.
    """
    recent = snapshot.completed[-RECENT:]
    if not recent:
        return _before_the_first_batch(snapshot, now_ms)
    interval_ms = snapshot.application.batch_interval_ms
    took = percentile([b.processing_delay_ms for b in recent if b.processing_delay_ms is not None], 50) or 0
    waited = percentile([b.scheduling_delay_ms for b in recent if b.scheduling_delay_ms is not None], 50) or 0
    generated = percentile([b.generation_delay_ms for b in recent if b.generation_delay_ms is not None], 50) or 0
    queued = len(snapshot.waiting)
    silent_ms = now_ms - max(batch.ended_ms or batch.time_ms for batch in recent)
    failed = sum(batch.num_failed > 0 for batch in recent)
    compared = f"batches use {took / interval_ms:.0%} of the batch interval ({duration(interval_ms)})"
    is_slow = took > interval_ms
    level, headline = Level.GOOD, f"Keeping up: {compared}."
    limits = [] if not is_slow else [_slowest_operation(recent)]
    if snapshot.is_live and not snapshot.stop_phase and silent_ms > max(5 * interval_ms, 10_000) + took:
        level, headline = Level.BAD, f"Stalled: no batch has completed for {duration(silent_ms)}."
        limits = [*_stalled_on(snapshot, now_ms), *limits]
    elif is_slow:
        level, headline = Level.BAD, f"Falling behind: {compared.replace('use', 'need', 1)}."
    elif queued > 1 and waited > interval_ms:
        level = Level.WARNING
        headline = f"Catching up: {compared}, and {plural(queued, 'batch')} wait for {duration(waited)}."
    elif generated > interval_ms:
        level, headline = Level.WARNING, f"Late: batches are generated {duration(generated)} after their time."
        limits.append("The driver is busy: look at its CPU, its memory and the checkpoint directory.")
    if is_slow and queued > 1:
        limits.insert(0, f"{plural(queued, 'batch')} wait; the last ones waited {duration(waited)}.")
    if failed:
        level = Level.BAD if failed == len(recent) else max(level, Level.WARNING, key=list(Level).index)
        limits.append(f"{failed} of the last {plural(len(recent), 'batch')} failed.")
    if silent := [problem for problem in receiver_problems(snapshot, now_ms) if problem.level is Level.BAD]:
        level = max(level, Level.WARNING, key=list(Level).index)
        limits.append(f"Data is missing: {_names([problem.stream for problem in silent])} not receiving.")
    if snapshot.storage.checkpoint_failures:
        level = max(level, Level.WARNING, key=list(Level).index)
        limits.append("Checkpoints cannot be written: a recovery would restart from an older one.")
    limits += _rate_limited(snapshot, recent)
    if level is Level.GOOD and not sum(batch.records for batch in recent):
        headline = f"Idle: the last {plural(len(recent), 'batch')} had no records."
    if not snapshot.is_live:
        headline = f"Ended. Its last batches: {headline[0].lower()}{headline[1:]}"
    elif snapshot.stop_phase:
        headline = f"Stopping ({snapshot.stop_phase}). {headline}"
    return Verdict(level, headline, tuple(limits))


def _before_the_first_batch(snapshot: Snapshot, now_ms: int) -> Verdict:
    if not snapshot.is_live:
        return Verdict(Level.UNKNOWN, "Ended before a batch completed.")
    if snapshot.running:
        since = snapshot.running[0].started_ms or snapshot.running[0].time_ms
        took = duration(now_ms - since)
        late = now_ms - since > 5 * snapshot.application.batch_interval_ms
        return Verdict(Level.WARNING if late else Level.UNKNOWN, f"The first batch has been running for {took}.")
    return Verdict(Level.UNKNOWN, "Waiting for the first batch.")


def _slowest_operation(recent: Sequence[Batch]) -> str:
    took: Counter[int] = Counter()
    names: dict[int, str] = {}
    for batch in recent:
        for operation in batch.operations or ():
            took[operation.id] += operation.duration_ms or 0
            names[operation.id] = operation.name
    if not took or not took.total():
        return "Processing limits it: records arrive faster than the output operations finish."
    slowest, its_ms = took.most_common(1)[0]
    return (
        f"Output operation {slowest} ({names[slowest]}) takes {its_ms / took.total():.0%} of the processing time: "
        "make it cheaper, give it more cores, or lower the input rate."
    )


def _stalled_on(snapshot: Snapshot, now_ms: int) -> list[str]:
    if snapshot.running:
        batch = snapshot.running[0]
        active = next(
            (operation for operation in batch.operations or () if operation.started_ms and operation.ended_ms is None),
            None,
        )
        what = f"output operation {active.id} ({active.name})" if active is not None else "its jobs"
        since = (active.started_ms if active is not None else batch.started_ms) or batch.time_ms
        return [f"The oldest running batch has spent {duration(now_ms - since)} in {what}."]
    if snapshot.waiting:
        return [f"{plural(len(snapshot.waiting), 'batch')} wait and none runs: Spark may have no free slot."]
    return ["The driver generates no batches: look at its log for the last error."]


def _rate_limited(snapshot: Snapshot, recent: Sequence[Batch]) -> list[str]:
    seen = [batch for batch in recent[-5:] if batch.inputs is not None]
    held = []
    for stream in snapshot.receivers:
        rates = [snapshot.input_rate(batch, stream.id) for batch in seen]
        if stream.rate_limit and rates and sum(rates) / len(rates) >= 0.9 * stream.rate_limit:
            held.append(stream)
    if not held:
        return []
    first = f"{held[0].name} ({rate(held[0].rate_limit)} records/s)"
    others = f" and {plural(len(held) - 1, 'other stream')}" if len(held) > 1 else ""
    return [f"Rate limits hold back {first}{others}."]


def _names(streams: Sequence[Stream]) -> str:
    """Name a few streams, with the verb that follows."""
    if len(streams) == 1:
        return f"{streams[0].name} is"
    if len(streams) == 2:
        return f"{streams[0].name} and {streams[1].name} are"
    return f"{streams[0].name}, {streams[1].name} and {plural(len(streams) - 2, 'other receiver')} are"


def lateness(snapshot: Snapshot, now_ms: int) -> Lateness:
    """Answer how late the recent batches' data was when processed, or how late unprocessed data is already."""
    recent, interval_ms = snapshot.completed[-RECENT:], snapshot.application.batch_interval_ms
    measured = Distribution.of(batch.latency_ms for batch in recent)
    explanation = "from a record's arrival to the end of its batch"
    if measured is None:
        # A record waits at most one interval for its batch time.
        ends = (batch.ended_ms - batch.time_ms + interval_ms for batch in recent if batch.ended_ms is not None)
        measured = Distribution.of(ends)
        explanation = "upper bound: one batch interval plus the time to the end of the batch"
    waiting_ms = _unprocessed_for(snapshot, now_ms)
    if waiting_ms > max(3 * interval_ms, 0 if measured is None else 2 * measured.p95):
        rising = "and rising: the batch with the oldest data has not ended"
        return Lateness(_level_of(waiting_ms, interval_ms), waiting_ms, None, rising)
    if measured is None:
        return Lateness(Level.UNKNOWN, None, None, "no batch has completed")
    return Lateness(_level_of(measured.p95, interval_ms), measured.p50, measured.p95, explanation)


def _unprocessed_for(snapshot: Snapshot, now_ms: int) -> int:
    """Estimate the age of the oldest data without a completed batch; 0 for a finished application."""
    if not snapshot.is_live or snapshot.stop_phase or not snapshot.batches:
        return 0
    pending = [*snapshot.running, *snapshot.waiting]
    oldest_ms = min(batch.time_ms for batch in pending) if pending else snapshot.batches[-1].time_ms
    return now_ms - oldest_ms + (snapshot.application.batch_interval_ms if pending else 0)


def _level_of(late_ms: int, interval_ms: int) -> Level:
    """Rate a delay. A batch that keeps up ends within two intervals of its first record's arrival."""
    if late_ms <= 2.5 * interval_ms + 500:
        return Level.GOOD
    return Level.WARNING if late_ms <= 10 * interval_ms else Level.BAD


def receiver_problem(stream: Stream, now_ms: int, *, is_live: bool = True) -> ReceiverProblem | None:
    """Describe the problem of a stream's receiver; ``None`` for a healthy receiver or a stream without one."""
    info = stream.receiver
    if not stream.has_receiver:
        return None
    if info is None:
        return ReceiverProblem(stream, Level.WARNING, "has not started") if is_live else None
    if info.given_up:
        return ReceiverProblem(stream, Level.BAD, "given up: it failed too often and is not relaunched")
    if is_live and not info.active:
        return ReceiverProblem(stream, Level.BAD, "not active")
    if info.unhealthy:
        return ReceiverProblem(
            stream, Level.WARNING, "unhealthy: it fails more often than spark.penstock.receiver.maxRestarts allows"
        )
    if info.lost_blocks:
        lost = f"lost {plural(info.lost_blocks, 'block')} with {count(info.lost_records)} records"
        return ReceiverProblem(stream, Level.WARNING, lost)
    if 0 <= now_ms - info.lastErrorTime < _ERROR_IS_RECENT_MS and info.lastErrorTime >= 0:
        return ReceiverProblem(stream, Level.WARNING, f"reported an error {duration(now_ms - info.lastErrorTime)} ago")
    return None


def receiver_problems(snapshot: Snapshot, now_ms: int) -> list[ReceiverProblem]:
    """Every receiver that needs attention, the worst first."""
    problems = (receiver_problem(stream, now_ms, is_live=snapshot.is_live) for stream in snapshot.receivers)
    return sorted(
        (problem for problem in problems if problem is not None), key=lambda problem: problem.level is not Level.BAD
    )
