"""Measures how well an estimator controlled a simulated workload.

The used share of the capacity is measured in three ways. ``used`` counts all processed records: by this measure the
most reckless estimator is the best, since a workload with a permanent queue is never idle. ``in_time`` counts batches
that ended before the next one was due, which is the purpose of rate control. ``nearly_in_time`` allows one interval
more, for programs that tolerate a short queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from attrs import Factory, field, frozen

from penstock_testing.workload_run import SimulatedBatch, WorkloadRun

# A batch is good when it ends within this many intervals of its time, and it and the four before it have this share of
# the attainable records.
_GOOD_DELAY = 1.5
_GOOD_SHARE = 0.7
_LAST = 5
# A run has settled when from there on this share of the batches is good, and all of the first few are.
_GOOD_BATCHES = 0.9
_FIRST = 3
# A batch that is in time ends within this many intervals of its time.
_IN_TIME, _NEARLY_IN_TIME = 1.0, 2.0
# A run is unstable when the median wait in its last tenth exceeds this many intervals.
_STABLE_QUEUE = 5.0


def _measured(measure: Callable[[WorkloadRun], Any]) -> Any:
    return field(init=False, default=Factory(lambda report: measure(report.run), takes_self=True))


@frozen
class WorkloadReport:
    """The measures of a run.

    Attributes:
        run: the measured run.
        settling: batches until the run settled, after the slowest of the workload's changes; ``None`` for never.
        overshoot: by how much the longest batch exceeded the interval, in intervals.
        queue: the longest wait of a batch, in intervals.
        used: records processed by the end of the run, as a share of those that the best possible rate would have.
        in_time: the same for batches that ended within one interval of their time: before the next was due.
        nearly_in_time: the same, within two intervals.
        oscillation: mean change of the rate from a batch to the next, relative to it, in the last quarter of the run.
        stable: whether the waits at the end were short.
        refused: invalid estimates.
        failed: errors that the estimators raised.
    """

    run: WorkloadRun = field(repr=False)
    settling: int | None = _measured(lambda run: _slowest(run))
    overshoot: float = _measured(lambda run: max(0.0, _longest(run, "processing_ms") - 1))
    queue: float = _measured(lambda run: _longest(run, "scheduling_ms"))
    used: float = _measured(lambda run: _share(run, math.inf))
    in_time: float = _measured(lambda run: _share(run, _IN_TIME))
    nearly_in_time: float = _measured(lambda run: _share(run, _NEARLY_IN_TIME))
    oscillation: float = _measured(lambda run: _oscillation(run.batches[-len(run.batches) // 4 :]))
    stable: bool = _measured(lambda run: _is_stable(run))
    refused: int = _measured(lambda run: run.refused)
    failed: int = _measured(lambda run: run.failed)


def report(run: WorkloadRun) -> WorkloadReport:
    """Measure a run."""
    return WorkloadReport(run)


def processed(run: WorkloadRun, intervals: float) -> int:
    """Count the records of batches that ended within a number of intervals and before the end of the run."""
    interval, count = run.workload.interval_ms, len(run.batches)
    return sum(
        sum(batch.records)
        for number, batch in enumerate(run.batches, 1)
        if _delay(batch) <= min(intervals, count - number + 1) * interval
    )


def _share(run: WorkloadRun, intervals: float) -> float:
    return processed(run, intervals) / sum(batch.attainable for batch in run.batches)


def _longest(run: WorkloadRun, delay: str) -> float:
    return float(max(getattr(batch, delay) for batch in run.batches)) / run.workload.interval_ms


def _is_stable(run: WorkloadRun) -> bool:
    last = run.batches[-max(len(run.batches) // 10, 1) :]
    return median(batch.scheduling_ms for batch in last) <= _STABLE_QUEUE * run.workload.interval_ms


def _delay(batch: SimulatedBatch) -> int:
    return batch.scheduling_ms + batch.processing_ms


def _slowest(run: WorkloadRun) -> int | None:
    times = [
        _settling(run.batches[since:until], run.workload.interval_ms)
        for since, until in pairwise((*run.workload.changes, len(run.batches)))
    ]
    known_times = [time for time in times if time is not None]
    return max(known_times) if len(known_times) == len(times) else None


def _settling(batches: Sequence[SimulatedBatch], interval_ms: int) -> int | None:
    good = [_is_good(batches[max(0, end - _LAST) : end], interval_ms) for end in range(1, len(batches) + 1)]
    for number in range(len(good) - _FIRST):
        rest = good[number:]
        if all(rest[:_FIRST]) and sum(rest) >= _GOOD_BATCHES * len(rest):
            return number
    return None


def _is_good(last: Sequence[SimulatedBatch], interval_ms: int) -> bool:
    records = sum(sum(batch.records) for batch in last)
    enough = records >= _GOOD_SHARE * sum(batch.attainable for batch in last)
    return enough and _delay(last[-1]) <= _GOOD_DELAY * interval_ms


def _oscillation(batches: Sequence[SimulatedBatch]) -> float:
    changes = [
        abs(after - before) / before
        for earlier, later in pairwise(batches)
        for before, after in zip(earlier.rates, later.rates, strict=True)
        if math.isfinite(before) and math.isfinite(after)
    ]
    return fmean(changes) if changes else 0.0
