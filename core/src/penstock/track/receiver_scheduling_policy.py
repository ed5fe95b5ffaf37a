"""``ReceiverSchedulingPolicy``: on which executors receivers should run.

Owns the rules, which are Spark's, and one of its own: when a receiver that runs should move. Pure: knows executors and
receivers as it is given them, asks nobody. Called on the tracker's loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from penstock.spark.cluster import TaskLocation


@frozen
class Occupation:
    """What another receiver takes up.

    Attributes:
        place: where it runs; ``None`` when it does not.
        candidates: where it may come to run, while it is scheduled.
    """

    place: TaskLocation | None = None
    candidates: tuple[TaskLocation, ...] = ()


def schedule_receivers(
    preferred: Mapping[int, str | None], executors: Sequence[TaskLocation]
) -> dict[int, list[TaskLocation]]:
    """Spread receivers over executors, before any of them runs.

    Args:
        preferred: by stream id, the host that the receiver would like to run on, if any.
        executors: that are there.

    Returns:
        By stream id the candidates of each; a host without an executor id stands for a preferred host on which there is
        no executor.
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
    """Find the candidates of one receiver that is launched again: the executors that have least to do.

    If some of these are on the preferred host, they alone; else that host is among the candidates as it is.
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
    """Say which running receiver would be better off elsewhere: ``None`` when all is as good as it gets.

    One that prefers a host, runs elsewhere, and has an executor without receivers there. Otherwise one of an executor
    with at least two more receivers than another has, so that the longest list becomes shorter and no other as long;
    not one that is where it prefers to be.
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
