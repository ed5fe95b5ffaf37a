"""``Placement``: where each receiver is launched, and whether one should move.

Applies the scheduling policy to the executors that Spark has now, and waits for enough of them at the start. On
``local[n]`` there is nothing to choose. Called on the tracker's loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark import SparkContext

from penstock.conf import Settings
from penstock.runtime.log import get_logger
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.track.receiver_scheduling_policy import (
    Occupation,
    receiver_to_move,
    reschedule_receiver,
    schedule_receivers,
)
from penstock.track.receiver_tracking_info import Active, ReceiverTrackingInfo, Scheduled

log = get_logger("placement")


class Placement:
    """Choose executors."""

    def __init__(self, sc: SparkContext, settings: Settings) -> None:
        self._sc = sc
        self._wait_ms, self._rebalance = settings.executors_wait_ms, settings.rebalance
        self._local = cluster.local_cores(sc) is not None
        # The executors when no receiver had to move: worth another look when there are others.
        self._settled: list[TaskLocation] | None = None

    def has_enough_executors(self, receivers: int, waited_ms: float) -> bool:
        """Whether to launch now: the executors that Spark was asked for have joined, or the wait has been too long."""
        if self._local or waited_ms >= self._wait_ms:
            return True
        return len(self._executors()) >= min(cluster.expected_executors(self._sc), receivers)

    def has_executor(self, host: str) -> bool:
        """Whether an executor is on a host."""
        return self._local or any(executor.host == host for executor in self._executors())

    def schedule(self, preferred: Mapping[int, str | None]) -> dict[int, list[TaskLocation]]:
        """Choose the candidates of all receivers, by stream id.

        Args:
            preferred: by stream id, the host that the receiver prefers.
        """
        executors = self._executors()
        if not executors:
            return {stream_id: _host(host) for stream_id, host in preferred.items()}
        return schedule_receivers(preferred, executors)

    def reschedule(
        self,
        record: ReceiverTrackingInfo,
        others: Iterable[ReceiverTrackingInfo],
        preferred: str | None,
        *,
        goes_back: bool,
    ) -> list[TaskLocation]:
        """Choose the candidates of one receiver that is relaunched.

        If it has not registered since it was scheduled: those candidates that are still there.

        Args:
            record: the receiver's record.
            others: the other receivers.
            preferred: the host that it prefers.
            goes_back: its blocks are needed where it was last: it returns there while that executor lives.
        """
        executors = self._executors()
        still_there = [each for each in record.candidates if not each.executor_id or each in executors]
        if still_there:
            return still_there
        if goes_back and record.location in executors:
            return [record.location]
        occupations = [
            Occupation(
                other.location if other.info.active else None,
                other.candidates if isinstance(other.state, Scheduled) else (),
            )
            for other in others
        ]
        return reschedule_receiver(preferred, occupations, executors) or _host(preferred)

    def to_move(self, records: Mapping[int, ReceiverTrackingInfo]) -> int | None:
        """The receiver that should run on another executor; ``None`` for none, or while one is not settled."""
        running = {stream_id: record for stream_id, record in records.items() if not record.info.given_up}
        if self._local or not self._rebalance or any(not isinstance(each.state, Active) for each in running.values()):
            return None
        executors = self._executors()
        if executors == self._settled:
            return None
        places = {stream_id: each.location for stream_id, each in running.items() if each.location is not None}
        preferred = {stream_id: each.preferred for stream_id, each in running.items() if each.preferred is not None}
        moved = receiver_to_move(places, preferred, executors)
        if moved is None:
            self._settled = executors
        return moved

    def _executors(self) -> list[TaskLocation]:
        if self._local:
            return []
        try:
            return cluster.executors(self._sc)
        except Exception as error:
            log.warning("executors unknown", reason=failure.reason(error))
            return []


def _host(preferred: str | None) -> list[TaskLocation]:
    return [] if preferred is None else [TaskLocation(preferred, "")]
