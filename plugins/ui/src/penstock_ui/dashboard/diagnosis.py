"""Why a receiver or the batches are as slow as they are: the largest part of a time budget, and what to do about it.

Pure functions of a snapshot.
"""

from __future__ import annotations

from attrs import frozen

from penstock_ui.dashboard.units import duration, rate
from penstock_ui.dashboard.verdict import RECENT, Level
from penstock_ui.snapshot import Snapshot, Stream

#: What each share of a receiver's time is, as its name on the pages.
RECEIVER_PARTS = {
    "source": "waiting for the source",
    "limiter": "held by the rate limit",
    "disk": "writing blocks",
    "driver": "waiting for the driver",
    "code": "computing",
}
# A lag of a source that grows or is this old is a receiver's problem, not only a number.
_OLD_LAG_S = 30.0


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


def diagnose_receiver(snapshot: Snapshot, stream: Stream) -> Diagnosis | None:
    """Name what a receiver spends its time on; ``None`` until it is known."""
    budget, info = stream.budget, stream.receiver
    if budget is None or info is None:
        return None
    part = budget.largest
    share = f"{budget.shares[part]:.0%}"
    name = stream.name
    recent = [batch for batch in snapshot.completed[-RECENT:] if batch.inputs is not None]
    records = sum((batch.inputs or {})[stream.id].numRecords for batch in recent if stream.id in (batch.inputs or {}))
    source = info.source
    is_behind = source is not None and bool(source.lag_messages) and (source.lag_s or 0) > _OLD_LAG_S
    match part:
        case "limiter":
            return Diagnosis(
                Level.WARNING,
                part,
                f"The rate limit ({rate(stream.rate_limit)} records/s) holds {name} back for {share} of its time.",
                _limit_advice(snapshot),
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
    if recent and not records:
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


def _limit_advice(snapshot: Snapshot) -> str:
    """A limit that is too low for batches with room, or that protects batches without."""
    interval_ms = snapshot.application.batch_interval_ms
    took = sorted(b.processing_delay_ms for b in snapshot.completed[-RECENT:] if b.processing_delay_ms is not None)
    used = took[len(took) // 2] / interval_ms if took else 1.0
    if used < 0.7:
        return (
            f"Batches use only {used:.0%} of the batch interval: raise spark.streaming.receiver.maxRate, or leave "
            "it out and turn spark.streaming.backpressure.enabled on."
        )
    return f"Batches use {used:.0%} of the batch interval: make them cheaper, and the limit rises."
