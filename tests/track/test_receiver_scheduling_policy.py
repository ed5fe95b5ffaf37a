"""``ReceiverSchedulingPolicy``, with the numbers of Spark's ReceiverSchedulingPolicySuite."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from penstock.spark.cluster import TaskLocation
from penstock.track.placement import (
    receiver_to_move,
    reschedule_receiver,
    schedule_receivers,
)


def executors(count: int, host: str = "") -> list[TaskLocation]:
    """Executors numbered from 1, each on a host of its own or all on the given one."""
    return [TaskLocation(host or f"host{number}", str(number)) for number in range(1, count + 1)]


def hosts(locations: list[TaskLocation]) -> set[str]:
    return {location.host for location in locations}


# -- one receiver again --


def test_no_executors_give_no_candidates() -> None:
    assert reschedule_receiver(None, [], []) == []


def test_preferred_host_is_always_a_candidate() -> None:
    assert hosts(reschedule_receiver("host1", [], [TaskLocation("host2", "1")])) == {"host1", "host2"}


def test_an_idle_executor_on_the_preferred_host_is_better_than_any_other() -> None:
    there = executors(3)
    assert reschedule_receiver("host2", [], there) == [there[1]]
    assert hosts(reschedule_receiver("host2", [[there[1]]], there)) == {"host1", "host2", "host3"}


def test_candidates_are_all_idle_executors() -> None:
    there = executors(5)
    assert hosts(reschedule_receiver(None, [[there[0]]], there)) == {"host2", "host3", "host4", "host5"}


def test_scheduled_receiver_weighs_on_each_of_its_candidates() -> None:
    # Weights 1.5, 0.5 and 1; two are idle.
    there = executors(5)
    others = [[there[0]], [there[0], there[1]], [there[2]]]
    assert hosts(reschedule_receiver(None, others, there)) == {"host4", "host5"}


def test_candidates_are_the_least_loaded_when_none_is_idle() -> None:
    there = executors(3)
    others = [[there[0]], [there[0], there[1]], [there[2]]]
    assert hosts(reschedule_receiver(None, others, there)) == {"host2"}
    assert hosts(reschedule_receiver(None, [[each] for each in there], there)) == {"host1", "host2", "host3"}


def test_inactive_receiver_weighs_nothing() -> None:
    there = executors(2)
    assert reschedule_receiver(None, [[], [TaskLocation("gone", "9")]], there) == there


# -- all receivers --


def test_no_receivers_and_no_executors() -> None:
    assert schedule_receivers({}, executors(3)) == {}
    assert schedule_receivers({0: None, 1: "host1"}, []) == {0: [], 1: [TaskLocation("host1", "")]}


def test_more_receivers_than_executors_are_spread_evenly() -> None:
    scheduled = schedule_receivers(dict.fromkeys(range(6)), executors(3))
    assert {len(locations) for locations in scheduled.values()} == {1}
    assert set(Counter(each for locations in scheduled.values() for each in locations).values()) == {2}


def test_more_executors_than_receivers_are_all_used() -> None:
    there = executors(6)
    scheduled = schedule_receivers(dict.fromkeys(range(3)), there)
    assert {len(locations) for locations in scheduled.values()} == {2}
    assert Counter(each for locations in scheduled.values() for each in locations) == Counter(there)


def test_preferences_are_kept_and_all_executors_used() -> None:
    here = [TaskLocation("localhost", str(number)) for number in range(3)]
    there = [TaskLocation("localhost2", str(number)) for number in range(3, 6)]
    scheduled = schedule_receivers(
        {0: None, 1: None, 2: None, 3: "localhost", 4: "localhost", 5: "localhost"}, here + there
    )
    assert {len(locations) for locations in scheduled.values()} == {1}
    assert {scheduled[stream_id][0] for stream_id in (3, 4, 5)} == set(here)
    assert {scheduled[stream_id][0] for stream_id in (0, 1, 2)} == set(there)


def test_a_preferred_host_without_executors_is_recorded_as_it_is() -> None:
    there = executors(1)
    assert schedule_receivers({0: "elsewhere"}, there) == {0: [TaskLocation("elsewhere", ""), there[0]]}


@pytest.mark.parametrize("seed", range(10))
def test_loads_never_differ_by_more_than_one(seed: int) -> None:
    rng = random.Random(seed)
    there = executors(rng.randint(1, 8))
    scheduled = schedule_receivers(dict.fromkeys(range(rng.randint(len(there), 30))), there)
    loads = Counter(locations[0] for locations in scheduled.values())
    assert max(loads.values()) - min(loads.values()) <= 1
    assert set(loads) == set(there)


# -- moving one --


def test_a_receiver_moves_when_two_more_run_there_than_elsewhere() -> None:
    one, two = executors(2)
    assert receiver_to_move({0: one, 1: one}, {}, [one, two]) == 1
    assert receiver_to_move({0: one, 1: two}, {}, [one, two]) is None
    assert receiver_to_move({0: one}, {}, [one, two]) is None
    assert receiver_to_move({0: one, 1: one, 2: two}, {}, [one, two]) is None
    assert receiver_to_move({0: one, 1: one}, {}, [one]) is None
    assert receiver_to_move({}, {}, [one, two]) is None


def test_receiver_on_its_preferred_host_stays() -> None:
    one, two = executors(2)
    assert receiver_to_move({0: one, 1: one}, {1: "host1"}, [one, two]) == 0
    assert receiver_to_move({0: one, 1: one}, {0: "host1", 1: "host1"}, [one, two]) is None


def test_receiver_moves_to_an_idle_executor_on_its_preferred_host() -> None:
    one, two = executors(2)
    assert receiver_to_move({0: one, 1: two}, {0: "host3"}, [one, two, TaskLocation("host3", "3")]) == 0
    assert receiver_to_move({0: one, 1: two}, {0: "host2"}, [one, two]) is None
    assert receiver_to_move({0: one, 1: two}, {0: "host9"}, [one, two]) is None


@pytest.mark.parametrize("seed", range(10))
def test_moves_come_to_an_end(seed: int) -> None:
    rng = random.Random(seed)
    there = executors(rng.randint(1, 6))
    places = {number: rng.choice(there) for number in range(rng.randint(1, 20))}
    preferred = {number: f"host{rng.randint(1, 8)}" for number in places if rng.random() < 0.3}
    for _ in range(100):
        moved = receiver_to_move(places, preferred, there)
        if moved is None:
            break
        others = [[place] for number, place in places.items() if number != moved]
        # Where Spark puts it among several candidates is Spark's choice; to the preferred host when that is one.
        candidates = [each for each in reschedule_receiver(preferred.get(moved), others, there) if each.executor_id]
        places[moved] = next(
            (candidate for candidate in candidates if candidate.host == preferred.get(moved)), candidates[0]
        )
    else:
        pytest.fail(f"it moves for ever: {places}")


def test_receiver_that_does_not_run_is_not_moved() -> None:
    there = executors(2)
    assert receiver_to_move({}, {7: "host1"}, there) is None
    assert receiver_to_move({7: there[1]}, {7: "host1", 8: "host1"}, there) == 7


def test_receiver_on_its_preferred_host_is_not_moved_to_another_executor_there() -> None:
    there = executors(2, "host")
    assert receiver_to_move({7: there[0]}, {7: "host"}, there) is None


def test_without_executors_no_receiver_is_moved() -> None:
    assert (
        receiver_to_move({7: TaskLocation("gone", "1"), 8: TaskLocation("gone", "1")}, {7: "host", 8: None}, []) is None
    )
