"""Simulated workloads, on which estimators are compared: capacity and input of a streaming program, batch by batch.

``workload_run`` runs them. No Spark, no clock.
"""

from __future__ import annotations

from itertools import accumulate, cycle, islice

from attrs import field, frozen

from penstock.spi import UnknownNameError

Steps = tuple[tuple[int, float], ...]


def at(steps: Steps, batch: int) -> float:
    """The value of steps ``((from batch, value), …)`` at a batch."""
    return next(value for since, value in reversed(steps) if since <= batch)


@frozen
class Workload:
    """A simulated program that processes one batch after the other.

    A batch takes ``fixed_ms + records / capacity``, times a random factor.

    Attributes:
        name: lowercase.
        summary: one line.
        capacity: records/s, in steps.
        sources: records/s that each stream's source offers, in steps; what the rate limit holds back waits there.
        fixed_ms: duration of a batch without records.
        noise: relative standard deviation of the random factor.
        pauses: probability that a batch has a pause.
        pause_factor: how many times as long a batch with a pause takes.
        interval_ms: batch interval.
        batches: number of batches.
        changes: batches from which settling is timed.
    """

    name: str
    summary: str
    capacity: Steps
    sources: tuple[Steps, ...]
    fixed_ms: float = 50.0
    noise: float = 0.02
    pauses: float = 0.0
    pause_factor: float = 1.0
    interval_ms: int = 1000
    batches: int = 200
    changes: tuple[int, ...] = field(default=(0,))

    def sustained(self, batch: int) -> float:
        """Records that can be processed in one interval."""
        return max(self.interval_ms - self.fixed_ms, 0.0) * at(self.capacity, batch) / 1000


def _alternating(*phases: tuple[int, float], until: int) -> Steps:
    """Repeat phases of ``(batches, value)``."""
    values = list(islice(cycle(value for _, value in phases), until))
    starts = accumulate(islice(cycle(length for length, _ in phases), until - 1), initial=0)
    return tuple((start, value) for start, value in zip(starts, values, strict=True) if start < until)


_ALL = (
    Workload("steady", "10,000/s, twice as much offered", ((0, 10_000),), (((0, 20_000),),)),
    Workload("high-fixed-cost", "the fixed time is 60 % of the interval", ((0, 10_000),), (((0, 20_000),),), 600),
    Workload("small-capacity", "60/s, less than pid's floor", ((0, 60),), (((0, 200),),)),
    Workload("below-one", "one record takes 2 s, batches every 5 s", ((0, 0.5),), (((0, 5),),), 100, interval_ms=5000),
    Workload("large-capacity", "2,000,000/s, far above the initial rate", ((0, 2e6),), (((0, 3e6),),), 100),
    Workload(
        "short-batches",
        "every 100 ms, with a fixed time of 40 ms",
        ((0, 50_000),),
        (((0, 80_000),),),
        40,
        0.05,
        interval_ms=100,
    ),
    Workload("noisy", "times vary by a quarter", ((0, 10_000),), (((0, 20_000),),), 100, 0.25),
    Workload(
        "pauses", "one batch in twenty takes five times as long", ((0, 10_000),), (((0, 20_000),),), 50, 0.05, 0.05, 5
    ),
    Workload(
        "warm-up", "a quarter of the capacity in the first 5 batches", ((0, 2_500), (5, 10_000)), (((0, 20_000),),)
    ),
    Workload("step-down", "from 10,000/s to 4,000/s", ((0, 10_000), (100, 4_000)), (((0, 20_000),),), changes=(0, 100)),
    Workload("step-up", "from 4,000/s to 10,000/s", ((0, 4_000), (100, 10_000)), (((0, 20_000),),), changes=(0, 100)),
    Workload(
        "bursty",
        "2,000/s, and in two batches of ten 30,000/s",
        ((0, 10_000),),
        (_alternating((8, 2_000), (2, 30_000), until=200),),
    ),
    Workload(
        "idle-then-burst",
        "100/s for 100 batches, then 20,000/s",
        ((0, 10_000),),
        (((0, 100), (100, 20_000)),),
        200,
        changes=(100,),
    ),
    Workload("two-streams", "both offer twice the capacity", ((0, 10_000),), (((0, 20_000),), ((0, 20_000),))),
    Workload("uneven-streams", "one offers 20,000/s, one 1,000/s", ((0, 10_000),), (((0, 20_000),), ((0, 1_000),))),
)
WORKLOADS = {workload.name: workload for workload in _ALL}


def named_workload(name: str) -> Workload:
    """Return a workload by name.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if name not in WORKLOADS:
        raise UnknownNameError("workload", name, WORKLOADS)
    return WORKLOADS[name]
