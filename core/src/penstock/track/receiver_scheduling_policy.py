"""On which executors receivers should run: the rules of Spark's ReceiverSchedulingPolicy, and when one should move.

Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from penstock.spark.cluster import TaskLocation


@frozen
class Occupation:
    """What another receiver occupies.

    Attributes:
        place: executor that runs it; ``None`` when it does not run.
        candidates: executors that may run it, while it is scheduled.
    """

    place: TaskLocation | None = None
    candidates: tuple[TaskLocation, ...] = ()


def schedule_receivers(
    preferred: Mapping[int, str | None], executors: Sequence[TaskLocation]
) -> dict[int, list[TaskLocation]]:
    """Spread receivers over executors, before any of them runs.

    Args:
        preferred: by stream id, the host that the receiver prefers, if any.
        executors: available now.

    Returns:
        The candidates by stream id; one without an executor id is a preferred host that has no executor.
    """
    scheduled: dict[int, list[TaskLocation]] = {stream_id: [] for stream_id in preferred}
    if not executors:
        return scheduled
    loads = dict.fromkeys(executors, 0)

    def give(stream_id: int, among: Iterable[TaskLocation]) -> None:
        chosen = min(among, key=loads.__getitem__)
        loads[chosen] += 1
        scheduled[stream_id].append(chosen)

    for stream_id, host in preferred.items():
        if host is not None:
            there = [executor for executor in executors if executor.host == host]
            if there:
                give(stream_id, there)
            else:
                scheduled[stream_id].append(TaskLocation(host, ""))
    for stream_id, host in preferred.items():
        if host is None:
            give(stream_id, executors)
    for executor in executors:
        if scheduled and not loads[executor]:
            min(scheduled.values(), key=len).append(executor)
    return scheduled


def reschedule_receiver(
    preferred: str | None, others: Iterable[Occupation], executors: Sequence[TaskLocation]
) -> list[TaskLocation]:
    """Find the candidates of one receiver that is relaunched: the least loaded executors.

    If some of these are on the preferred host, those alone; otherwise that host is added to the candidates.
    """
    if not executors:
        return []
    weights = dict.fromkeys(executors, 0.0)
    for other in others:
        candidates = [other.place] if other.place is not None else list(other.candidates)
        for candidate in candidates:
            if candidate in weights:
                weights[candidate] += 1 / len(candidates)
    lightest = min(weights.values())
    chosen = [executor for executor in executors if weights[executor] == lightest]
    if preferred is None:
        return chosen
    return [each for each in chosen if each.host == preferred] or [TaskLocation(preferred, ""), *chosen]


def receiver_to_move(
    places: Mapping[int, TaskLocation], preferred: Mapping[int, str], executors: Sequence[TaskLocation]
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
