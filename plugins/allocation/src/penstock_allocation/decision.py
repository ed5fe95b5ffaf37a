"""The decisions of executor allocation: how many executors to request, or which one to release. Pure functions.

The numbers are those of Spark's ExecutorAllocationManager, with three additions. If no batch completes, the load is
that of the oldest waiting batch; Spark never requests an executor then (SPARK-42972). The receivers and one more task
always have a slot. The executor with the least backlog is released first, where Spark chooses any.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from attrs import frozen

from penstock_allocation.options import AllocationOptions


@frozen
class Load:
    """The load of the batches in an interval.

    Attributes:
        delay_ms: sum of the processing delays of the batches that completed without an error.
        batches: number of these batches.
        waiting_ms: age of the oldest batch that has not completed; 0 for none.
    """

    delay_ms: int = 0
    batches: int = 0
    waiting_ms: int = 0

    def ratio(self, batch_interval_ms: int) -> float | None:
        """Processing time as a part of the batch interval; ``None`` without data."""
        if self.batches:
            return self.delay_ms // self.batches / batch_interval_ms
        # A batch that has waited for less than an interval is on time.
        return self.waiting_ms / batch_interval_ms if self.waiting_ms > batch_interval_ms else None


@frozen
class Request:
    """Request executors.

    Attributes:
        total: total number of executors wanted.
    """

    total: int


@frozen
class Release:
    """Release an executor."""

    executor_id: str


@frozen
class Cluster:
    """The executors.

    Attributes:
        executors: ids of the registered executors.
        with_receivers: executors that run a receiver.
        backlog: bytes of unprocessed blocks by executor; absent for none.
        receivers: number of receiver streams.
        slots: tasks that an executor runs at a time.
        settled: whether the executor of every receiver is known. A receiver that is being launched may start anywhere.
    """

    executors: Collection[str]
    with_receivers: Collection[str]
    backlog: Mapping[str, int]
    receivers: int
    slots: int = 1
    settled: bool = True

    @property
    def least(self) -> int:
        """Executors that the receivers and one more task need."""
        return max(math.ceil((self.receivers + 1) / self.slots), 1)


def decide(
    load: Load, cluster: Cluster, options: AllocationOptions, batch_interval_ms: int
) -> Request | Release | None:
    """Decide what to do about a load.

    Returns:
        The request or release; ``None`` to leave the executors as they are.
    """
    ratio = load.ratio(batch_interval_ms)
    current = len(cluster.executors)
    if ratio is not None and ratio >= options.scalingUpRatio:
        # Round halves upwards, as Java does.
        return _request(max(math.floor(ratio + 0.5), 1), current, cluster, options)
    if current < _least(cluster, options):
        return _request(0, current, cluster, options)
    if ratio is None or ratio > options.scalingDownRatio or load.waiting_ms > batch_interval_ms:
        return None
    return _release(current, cluster, options)


def _least(cluster: Cluster, options: AllocationOptions) -> int:
    least = max(cluster.least, options.minExecutors or 0)
    return least if options.maxExecutors is None else min(least, options.maxExecutors)


def _request(further: int, current: int, cluster: Cluster, options: AllocationOptions) -> Request | None:
    wanted = current + further
    if options.maxExecutors is not None:
        wanted = min(wanted, options.maxExecutors)
    total = max(wanted, _least(cluster, options))
    return Request(total) if total > current else None


def _release(current: int, cluster: Cluster, options: AllocationOptions) -> Release | None:
    idle = [executor for executor in cluster.executors if executor not in cluster.with_receivers]
    if not cluster.settled or current <= _least(cluster, options) or not idle:
        return None
    # Among equals, the youngest: it has cached the least. Spark's ids increase.
    return Release(
        min(idle, key=lambda executor: (cluster.backlog.get(executor, 0), [-ord(char) for char in executor.zfill(20)]))
    )
