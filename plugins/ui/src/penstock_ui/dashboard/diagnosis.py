"""Why a receiver or the batches are as slow as they are: the largest part of a time budget, and what to do about it.

Pure functions of a snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from attrs import asdict, evolve, frozen

from penstock.spi import shortened
from penstock_ui.batch_budget import BatchBudget, batch_budget
from penstock_ui.dashboard.units import duration, rate
from penstock_ui.dashboard.verdict import RECENT, Level
from penstock_ui.snapshot import Batch, Snapshot, Stream
from penstock_ui.spark_stages import StageRun

#: What each share of a receiver's time is, as its name on the pages.
RECEIVER_PARTS = {
    "source": "waiting for the source",
    "limiter": "held by the rate limit",
    "disk": "writing blocks",
    "driver": "waiting for the driver",
    "code": "computing",
}
#: What each part of a batch's time is, as its name on the pages, in the order in which it happens.
BATCH_PARTS = {
    "generation": "generating jobs",
    "waiting": "waiting for earlier batches",
    "scheduling": "Spark's scheduling",
    "python": "Python in tasks",
    "jvm": "JVM in tasks",
    "shuffle": "shuffle",
    "gc": "garbage collection",
    "tasks": "tasks",
    "output": "output in the driver",
    "operations": "output operations",
}
# The cause and the advice for each part; ``share`` is its part of the time that is no waiting.
_CAUSES = {
    "generation": (
        "Generating jobs takes {share} of the time of batches",
        "The driver is busy: look at its CPU and the checkpoint directory, and use fewer streams and windows.",
    ),
    "scheduling": (
        "Spark's scheduling takes {share} of the time of batches",
        "Use fewer partitions and stages, give receivers and batches enough slots, or choose a longer batch interval.",
    ),
    "python": (
        "Python functions take {share} of the time of batches",
        "Make them cheaper, use DataFrames or mapInArrow, batch the calls of a sink, or add cores.",
    ),
    "jvm": ("The JVM's part of tasks takes {share} of the time of batches", "Look at the SQL plan, or add cores."),
    "shuffle": (
        "Shuffling takes {share} of the time of batches",
        "Reduce before the shuffle, use fewer partitions, or faster local disks and network.",
    ),
    "gc": (
        "Garbage collection takes {share} of the time of batches",
        "Give executors more memory (spark.executor.memory), and persist less, or as MEMORY_AND_DISK_SER.",
    ),
    "tasks": (
        "Tasks take {share} of the time of batches",
        "Make the functions cheaper, batch the calls of a sink, or add cores. With Spark's UI on, the part is named.",
    ),
    "output": (
        "Output operations spend {share} of the time of batches in the driver, outside of Spark's jobs",
        "The sink, or what the driver does with collected data, is slow: write from the tasks, or in larger groups.",
    ),
    "operations": (
        "Output operations take {share} of the time of batches, and no Spark job of theirs is known",
        "If they run none, the sink or the driver's own code is slow: write from the tasks, or in larger groups.",
    ),
}
# A lag of a source that grows or is this old is a receiver's problem, not only a number.
_OLD_LAG_S = 30.0
# Characters of an error in a sentence.
_LONGEST_ERROR = 200


@frozen
class Diagnosis:
    """The largest part of a time budget.

    Attributes:
        level: the severity.
        part: the name of the part.
        cause: one sentence that names it.
        advice: what to do about it; empty if nothing is to be done.
    """

    level: Level
    part: str
    cause: str
    advice: str = ""

    @property
    def sentence(self) -> str:
        """Cause and advice."""
        return f"{self.cause} {self.advice}".strip()


@frozen
class Part:
    """A part of a time budget: its key, its name on the pages, its share of 1, and its size as text."""

    key: str
    name: str
    share: float
    text: str


def receiver_parts(stream: Stream) -> tuple[Part, ...]:
    """The parts of a receiver's time, in a fixed order; none until it is known."""
    if stream.budget is None or stream.receiver is None:
        return ()
    shares = stream.budget.shares
    return tuple(Part(key, name, shares[key], f"{shares[key]:.0%}") for key, name in RECEIVER_PARTS.items())


def diagnose_receiver(snapshot: Snapshot, stream: Stream, load: float | None = None) -> Diagnosis | None:
    """Name what a receiver spends its time on; ``None`` until it is known.

    Args:
        snapshot: the application.
        stream: its input stream.
        load: the ``batch_load`` of the application, for callers with many receivers.
    """
    budget, info = stream.budget, stream.receiver
    if budget is None or info is None:
        return None
    part = budget.largest
    share = f"{budget.shares[part]:.0%}"
    name = stream.name
    source = info.source
    is_behind = source is not None and bool(source.lag_messages) and (source.lag_s or 0) > _OLD_LAG_S
    match part:
        case "limiter":
            return Diagnosis(
                Level.WARNING,
                part,
                f"The rate limit ({rate(stream.rate_limit)} records/s) holds {name} back for {share} of its time.",
                _limit_advice(batch_load(snapshot) if load is None else load),
            )
        case "disk":
            is_full = "disk is full" in info.lastErrorMessage
            what = "space on the full disk" if is_full else "the disk"
            host = f" of {info.location}" if info.location else ""
            return Diagnosis(
                Level.BAD if is_full else Level.WARNING,
                part,
                f"{name} waits for {what}{host} for {share} of its time.",
                "Free space there, or give Spark's local directories a larger disk."
                if is_full
                else "Give Spark's local directories, or the write-ahead log, a faster disk.",
            )
        case "driver":
            return Diagnosis(
                Level.WARNING,
                part,
                f"{name} waits for the driver to acknowledge its blocks for {share} of its time.",
                "Look at the driver's CPU and at the checkpoint directory, where it logs blocks; store larger batches.",
            )
        case "code":
            return Diagnosis(
                Level.WARNING if budget.code >= 0.8 else Level.GOOD,
                part,
                f"{name} computes for {share} of its time.",
                "Its own code limits it: parse in the batches instead, or add a receiver." * (budget.code >= 0.8),
            )
    recent = [batch for batch in snapshot.completed[-RECENT:] if batch.inputs is not None]
    if recent and not any(_has_records(batch, stream.id) for batch in reversed(recent)):
        if info.lastErrorTime >= recent[0].time_ms:
            error = shortened(info.lastErrorMessage.partition("\n")[0].rstrip("."), _LONGEST_ERROR)
            return Diagnosis(
                Level.WARNING,
                part,
                f"{name} stored nothing in the last {len(recent)} batches. Its last error: {error}.",
                "Its page has the traceback.",
            )
        silent = f"the last {len(recent)} batches had none of its records"
        return Diagnosis(
            Level.WARNING,
            part,
            f"The source of {name} is silent: it waits for its source for {share} of its time, and {silent}.",
            "Look at the source, its address and its subscription.",
        )
    if is_behind and source is not None:
        return Diagnosis(
            Level.WARNING,
            part,
            f"{name} is {duration(1000 * (source.lag_s or 0))} behind its broker, and waits for it for {share} of its "
            "time.",
            "The broker or the network delivers slowly: fetch more at once, or add a receiver with its own partitions.",
        )
    return Diagnosis(Level.GOOD, part, f"{name} waits for its source for {share} of its time: it gets all that comes.")


def _has_records(batch: Batch, stream_id: int) -> bool:
    info = (batch.inputs or {}).get(stream_id)
    return info is not None and info.numRecords > 0


def batch_load(snapshot: Snapshot) -> float:
    """The share of the batch interval that the last batches used: their median, 1 without any."""
    took = sorted(b.processing_delay_ms for b in snapshot.completed[-RECENT:] if b.processing_delay_ms is not None)
    return took[len(took) // 2] / snapshot.application.batch_interval_ms if took else 1.0


def _limit_advice(load: float) -> str:
    """A limit that is too low for batches with room, or that protects batches without."""
    if load < 0.7:
        return (
            f"Batches use only {load:.0%} of the batch interval: raise spark.streaming.receiver.maxRate, or leave it "
            "out and turn spark.streaming.backpressure.enabled on."
        )
    return f"Batches use {load:.0%} of the batch interval: make them cheaper, and the limit rises."


def batch_parts(budget: BatchBudget | None) -> tuple[Part, ...]:
    """The parts of the time of one batch, or of several, in the order in which they happen."""
    if budget is None or not budget.total:
        return ()
    parts = asdict(budget)
    return tuple(
        Part(key, name, ms / budget.total, duration(ms)) for key, name in BATCH_PARTS.items() if (ms := parts[key])
    )


def total_budget(batches: Sequence[Batch]) -> BatchBudget | None:
    """The parts of some batches together; of those alone whose stages Spark has named, if there are any."""
    known = [batch for batch in batches if batch.stages] or batches
    budgets = [budget for batch in known if (budget := batch_budget(batch)) is not None]
    return sum(budgets, BatchBudget()) if budgets else None


def diagnose_batches(batches: Sequence[Batch], interval_ms: int) -> Diagnosis | None:
    """Name what some completed batches spent their time on; ``None`` without any."""
    budget = total_budget(batches)
    if budget is None or not budget.total:
        return None
    parts = asdict(budget)
    # Batches wait because those before them take long: the cause is in what they do.
    work = {name: ms for name, ms in parts.items() if name != "waiting"}
    total = sum(work.values())
    if not total:
        return Diagnosis(Level.WARNING, "waiting", "Batches only wait.", "Look for a batch that took long before them.")
    took = sum(batch.processing_delay_ms or 0 for batch in batches)
    level = Level.WARNING if took > interval_ms * len(batches) else Level.GOOD
    part = max(work, key=work.__getitem__)
    if work["gc"] >= 0.25 * total:
        part = "gc"
    share = f"{work[part] / total:.0%}"
    if part in ("python", "jvm", "tasks", "shuffle") and (straggler := _straggler(batches)) is not None:
        return evolve(straggler, level=level)
    cause, advice = _CAUSES[part]
    operation = (
        _slowest_operation(batches) if part in ("python", "jvm", "tasks", "output", "operations", "shuffle") else ""
    )
    return Diagnosis(level, part, f"{cause.format(share=share)}{operation}.", advice)


def _slowest_operation(recent: Sequence[Batch]) -> str:
    took: Counter[str] = Counter()
    for batch in recent:
        for operation in batch.operations or ():
            took[f"{operation.id} ({operation.name})"] += operation.duration_ms or 0
    return f", most of it in output operation {took.most_common(1)[0][0]}" if len(took) > 1 else ""


def _straggler(recent: Sequence[Batch]) -> Diagnosis | None:
    """A task that keeps most of its stage waiting: it has more data than the others, or a slower executor."""
    stages = [stage for batch in recent for stage in batch.stages if stage.tasks > 1 and stage.run_ms]
    slow = [stage for stage in stages if stage.longest_ms >= 3 * _mean_of_others(stage.run_ms, stage.longest_ms, stage)]
    lost_ms = sum(stage.longest_ms - _mean_of_others(stage.run_ms, stage.longest_ms, stage) for stage in slow)
    wall_ms = sum((stage.completed_ms or 0) - (stage.first_task_ms or stage.completed_ms or 0) for stage in stages)
    if not slow or lost_ms < 0.4 * wall_ms:
        return None
    times = mean(s.longest_ms / max(_mean_of_others(s.run_ms, s.longest_ms, s), 1) for s in slow)
    long_one = f"One task takes {times:.0f} times as long as the others of its stage"
    skewed = [s for s in slow if s.longest_bytes >= 2 * max(_mean_of_others(s.read_bytes, s.longest_bytes, s), 1)]
    if 2 * len(skewed) > len(slow):
        read = mean(s.longest_bytes / max(s.read_bytes, s.longest_bytes) for s in skewed)
        return Diagnosis(
            Level.WARNING,
            "skew",
            f"{long_one}, because it reads {read:.0%} of the data: a key is skewed.",
            "Reduce before the shuffle (reduceByKey instead of groupByKey), or add a salt to the key.",
        )
    executor, count = Counter(f"{s.longest_executor} on {s.longest_host}" for s in slow).most_common(1)[0]
    if len(slow) >= 3 and count >= 0.8 * len(slow):
        return Diagnosis(
            Level.WARNING,
            "executor",
            f"{long_one}, nearly always on executor {executor}: that executor is slow.",
            "Look at its host (CPU, disk, other programs), or turn spark.excludeOnFailure and spark.speculation on.",
        )
    return Diagnosis(
        Level.WARNING,
        "straggler",
        f"{long_one}, with as much data and on changing executors.",
        "Look for records that take long, or for calls that wait.",
    )


def _mean_of_others(total: int, longest: int, stage: StageRun) -> float:
    return max(total - longest, 0) / (stage.tasks - 1)
