"""``Placement``: chooses the executors of receivers, and the receiver that should move.

``Placement`` applies the policy to the executors that Spark has now; on ``local[n]`` there is nothing to choose. Called
on the tracker's loop. The policy consists of pure functions after Spark's ReceiverSchedulingPolicy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyspark import SparkContext

from penstock.conf import Settings
from penstock.runtime.log import get_logger
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.track.receiver_tracking_info import Active, ReceiverTrackingInfo, RegisteredOnce, Unregistered

log = get_logger("placement")

# The longest wait of the first launches for the executors requested from Spark.
_EXECUTORS_WAIT_MS = 30_000


class Placement:
    """Choose executors."""

    def __init__(self, sc: SparkContext, settings: Settings) -> None:
        self._sc = sc
        self._rebalance = settings.rebalance
        self._local = cluster.local_cores(sc) is not None
        # The executors at the last check that moved no receiver; no new check until they change.
        self._settled: list[TaskLocation] | None = None

    def has_enough_executors(self, receivers: int, waited_ms: float) -> bool:
        """Whether to launch now: the requested executors have joined, or the maximum wait has passed."""
        if self._local or waited_ms >= _EXECUTORS_WAIT_MS:
            return True
        return len(self.executors()) >= min(cluster.expected_executors(self._sc), receivers)

    def has_executor(self, host: str) -> bool:
        """Whether an executor is on a host."""
        return self._local or any(executor.host == host for executor in self.executors())

    def lost(self, records: Iterable[ReceiverTrackingInfo]) -> list[int]:
        """The stream ids of receivers that registered from an executor that Spark no longer lists."""
        if self._local:
            return []
        places = {
            record.stream_id: record.location.executor_id
            for record in records
            if record.location is not None and isinstance(record.state, RegisteredOnce)
        }
        try:
            listed = cluster.executor_ids(self._sc) if places else ()
        except Exception as error:
            log.warning("executors unknown", reason=failure.reason(error), effect="lost ones are noticed later")
            return []
        return [stream_id for stream_id, executor_id in places.items() if executor_id not in listed]

    def reschedule(
        self,
        record: ReceiverTrackingInfo,
        others: Iterable[ReceiverTrackingInfo],
        preferred: str | None,
        *,
        goes_back: bool,
    ) -> list[TaskLocation]:
        """Choose the candidates for the relaunch of a receiver: the last candidates if it has not registered since.

        With ``goes_back``, blocks are needed on its last executor; the receiver returns there if that executor lives.
        """
        executors = self.executors()
        still_there = [place for place in record.candidates if not place.executor_id or place in executors]
        if still_there:
            return still_there
        if goes_back and record.location in executors:
            return [record.location]
        return reschedule_receiver(preferred, map(_occupied, others), executors)

    def to_move(self, records: Mapping[int, ReceiverTrackingInfo]) -> int | None:
        """The receiver that should move to another executor; ``None`` for none, or while a receiver is not settled."""
        running = {stream_id: record for stream_id, record in records.items() if not record.is_given_up}
        all_run = all(isinstance(record.state, Active) for record in running.values())
        if self._local or not self._rebalance or not all_run:
            return None
        executors = self.executors()
        if executors == self._settled:
            return None
        places = {stream_id: record.location for stream_id, record in running.items() if record.location is not None}
        preferred = {stream_id: record.preferred for stream_id, record in running.items()}
        moved = receiver_to_move(places, preferred, executors)
        if moved is None:
            self._settled = executors
        return moved

    def executors(self) -> list[TaskLocation]:
        """The executors to choose from; empty if any executor is suitable."""
        if self._local:
            return []
        try:
            return cluster.executors(self._sc)
        except Exception as error:
            log.warning("executors unknown", reason=failure.reason(error), effect="receivers run on any executor")
            return []


def _host(preferred: str | None) -> list[TaskLocation]:
    return [] if preferred is None else [TaskLocation(preferred, "")]


def _occupied(record: ReceiverTrackingInfo) -> Sequence[TaskLocation]:
    if record.is_active and record.location is not None:
        return [record.location]
    return record.candidates if isinstance(record.state, Unregistered) else ()


# -- the policy --


def schedule_receivers(
    preferred: Mapping[int, str | None], executors: Sequence[TaskLocation]
) -> dict[int, list[TaskLocation]]:
    """Spread receivers over executors, before any of them runs; return the candidates by stream id.

    A candidate is an executor, or a preferred host that has no executor. Without candidates, any executor is suitable.
    """
    if not executors:
        return {stream_id: _host(host) for stream_id, host in preferred.items()}
    scheduled: dict[int, list[TaskLocation]] = {stream_id: [] for stream_id in preferred}
    loads = dict.fromkeys(executors, 0)

    def assign(stream_id: int, among: Iterable[TaskLocation]) -> None:
        chosen = min(among, key=loads.__getitem__)
        loads[chosen] += 1
        scheduled[stream_id].append(chosen)

    for stream_id, host in preferred.items():
        on_host = [executor for executor in executors if executor.host == host]
        if on_host:
            assign(stream_id, on_host)
        else:
            scheduled[stream_id] += _host(host)
    for stream_id, host in preferred.items():
        if host is None:
            assign(stream_id, executors)
    for executor in executors:
        if scheduled and not loads[executor]:
            min(scheduled.values(), key=len).append(executor)
    return scheduled


def reschedule_receiver(
    preferred: str | None, others: Iterable[Sequence[TaskLocation]], executors: Sequence[TaskLocation]
) -> list[TaskLocation]:
    """Find the candidates for the relaunch of a receiver: the least loaded executors.

    If some of these are on the preferred host, only they are candidates; otherwise that host is added. ``others`` are
    the executors that run, or may run, every other receiver.
    """
    if not executors:
        return _host(preferred)
    weights = dict.fromkeys(executors, 0.0)
    for candidates in others:
        for candidate in candidates:
            if candidate in weights:
                weights[candidate] += 1 / len(candidates)
    lightest = min(weights.values())
    chosen = [executor for executor in executors if weights[executor] == lightest]
    if preferred is None:
        return chosen
    return [executor for executor in chosen if executor.host == preferred] or [TaskLocation(preferred, ""), *chosen]


def receiver_to_move(
    places: Mapping[int, TaskLocation], preferred: Mapping[int, str | None], executors: Sequence[TaskLocation]
) -> int | None:
    """The running receiver that should move, or ``None``.

    First, one that runs elsewhere than on its preferred host while an executor there has no receiver. Otherwise one of
    an executor that has at least two receivers more than another, unless it is on its preferred host.
    """
    loads = Counter(dict.fromkeys(executors, 0))
    loads.update(place for place in places.values() if place in loads)
    for stream_id, host in preferred.items():
        elsewhere = stream_id in places and places[stream_id].host != host
        if elsewhere and any(executor.host == host and not loads[executor] for executor in executors):
            return stream_id
    least = min(loads.values(), default=0)
    movable = [
        stream_id
        for stream_id, place in places.items()
        if loads[place] >= least + 2 and place.host != preferred.get(stream_id)
    ]
    return max(movable, key=lambda stream_id: (loads[places[stream_id]], stream_id), default=None)
