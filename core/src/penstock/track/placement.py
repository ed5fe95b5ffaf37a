"""``Placement``: where each receiver is launched, whether it has come up there, and whether it should move.

Owns the use of the ReceiverSchedulingPolicy with the executors that Spark has now, and the wait for enough of them at
the start. On ``local[n]`` there is nothing to choose. Never launches or stops a receiver. Called on the tracker's loop.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from penstock.track.tracked_receiver import ReceiverState, TrackedReceiver

log = get_logger("receiver_tracker")

# Where Spark starts a receiver is its choice in the end: after so many wrong ones in a row, any place is right.
_MOST_REFUSED = 2


class Placement:
    """Choose executors.

    Args:
        sc: whose executors.
        settings: in force.
        tracked: the receivers, by stream id.
    """

    def __init__(self, sc: SparkContext, settings: Settings, tracked: Mapping[int, TrackedReceiver]) -> None:
        self._sc, self._tracked = sc, tracked
        self._wait_ms, self._rebalance = settings.executors_wait_ms, settings.rebalance
        self._local = cluster.local_cores(sc) is not None
        # Executors when all was as good as it gets: worth another look when they are others.
        self._settled: list[TaskLocation] | None = None

    def has_enough_executors(self, waited_ms: float) -> bool:
        """Say whether to begin: all executors that Spark was asked for are there, or were waited for long enough."""
        if self._local or waited_ms >= self._wait_ms:
            return True
        return len(self._executors()) >= min(cluster.expected_executors(self._sc), len(self._tracked))

    def has_executor(self, host: str) -> bool:
        """Say whether an executor is on a host."""
        return self._local or any(executor.host == host for executor in self._executors())

    def schedule(self, preferred: Mapping[int, str | None]) -> dict[int, list[TaskLocation]]:
        """Choose the candidates of all receivers, by stream id."""
        executors = self._executors()
        scheduled = schedule_receivers(preferred, executors)
        if not executors:
            return {stream_id: _host(host) for stream_id, host in preferred.items()}
        for stream_id, candidates in scheduled.items():
            log.info("receiver scheduled", stream_id=stream_id, candidates=[each.preference for each in candidates])
        return scheduled

    def reschedule(self, tracked: TrackedReceiver, preferred: str | None, *, goes_back: bool) -> list[TaskLocation]:
        """Choose the candidates of one receiver that is launched again.

        As long as it has not registered: of those that it was scheduled to, the ones that are still there.

        Args:
            tracked: the receiver.
            preferred: the host that it would like to run on.
            goes_back: it is awaited where it was, if that is still there.
        """
        executors = self._executors()
        still_there = [each for each in tracked.candidates if not each.executor_id or each in executors]
        if still_there:
            return still_there
        if goes_back and tracked.location in executors:
            return [tracked.location]
        others = [
            Occupation(
                other.location if other.is_active else None,
                other.candidates if other.state is ReceiverState.SCHEDULED else (),
            )
            for other in self._tracked.values()
            if other is not tracked
        ]
        return reschedule_receiver(preferred, others, executors) or _host(preferred)

    def accepts(self, tracked: TrackedReceiver, place: TaskLocation | None) -> bool:
        """Say whether a receiver may run where Spark has started it. One that is somewhere else too often may."""
        wanted = [candidate for candidate in tracked.candidates if candidate.executor_id]
        hosts = {candidate.host for candidate in tracked.candidates if not candidate.executor_id}
        if place is None or not wanted or place in wanted or place.host in hosts:
            tracked.refused_places = 0
            return True
        tracked.refused_places += 1
        if tracked.refused_places > _MOST_REFUSED:
            log.warning("receiver stays on another executor than it was scheduled to", stream_id=tracked.stream_id)
            tracked.refused_places = 0
            return True
        return False

    def to_move(self) -> TrackedReceiver | None:
        """A receiver that runs and would be better off on another executor; ``None`` while some are on their way."""
        running = [tracked for tracked in self._tracked.values() if not tracked.given_up]
        if self._local or not self._rebalance or any(not each.is_active or each.moving for each in running):
            return None
        executors = self._executors()
        if executors == self._settled:
            return None
        places = {each.stream_id: each.location for each in running if each.location is not None}
        preferred = {each.stream_id: each.preferred for each in running if each.preferred is not None}
        moved = receiver_to_move(places, preferred, executors)
        if moved is None:
            self._settled = executors
            return None
        return self._tracked[moved]

    def _executors(self) -> list[TaskLocation]:
        if self._local:
            return []
        try:
            return cluster.executors(self._sc)
        except Exception as error:
            log.warning("Spark does not say which executors there are", reason=failure.reason(error))
            return []


def _host(preferred: str | None) -> list[TaskLocation]:
    return [] if preferred is None else [TaskLocation(preferred, "")]
