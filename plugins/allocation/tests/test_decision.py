"""What executor allocation decides. The first tables have the numbers of Spark's ExecutorAllocationManagerSuite."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from penstock_allocation.decision import Cluster, Load, Release, Request, decide
from penstock_allocation.options import AllocationOptions

INTERVAL_MS = 1000


def cluster(count: int, receivers: int, *, on: str = "", slots: int = 2, **backlog: int) -> Cluster:
    """Executors ``1`` to ``count``, receivers on those named."""
    executors = [str(number + 1) for number in range(count)]
    return Cluster(executors, set(on.split()), {name[1:]: size for name, size in backlog.items()}, receivers, slots)


def took(ms: int) -> Load:
    return Load(ms * 3, 3)


@pytest.mark.parametrize(
    ("delay_ms", "decision"),
    [
        (1000, Request(3)),
        (2000, Request(4)),
        (901, Request(3)),
        (899, None),
        (301, None),
        (299, Release("2")),
    ],
)
def test_executors_follow_the_processing_time(delay_ms: int, decision: object) -> None:
    assert decide(took(delay_ms), cluster(2, 1, on="1"), AllocationOptions(), INTERVAL_MS) == decision


@pytest.mark.parametrize(
    ("receivers", "current", "further", "least", "most", "total"),
    [
        (1, 0, 1, None, None, 1),
        (1, 1, 1, None, None, 2),
        (1, 2, 2, None, None, 4),
        (2, 0, 1, None, None, 2),
        (2, 1, 1, None, None, 2),
        (2, 2, 2, None, None, 4),
        (1, 0, 1, 2, None, 2),
        (1, 0, 3, 2, None, 3),
        (1, 1, 1, 2, None, 2),
        (1, 1, 2, 2, None, 3),
        (1, 2, 1, 2, None, 3),
        (1, 2, 2, 2, None, 4),
        (1, 0, 1, None, 2, 1),
        (1, 0, 3, None, 2, 2),
        (1, 1, 2, None, 2, 2),
    ],
)
def test_a_request_stays_within_the_bounds(
    receivers: int, current: int, further: int, least: int | None, most: int | None, total: int
) -> None:
    options = AllocationOptions(minExecutors=least, maxExecutors=most)
    assert decide(took(further * INTERVAL_MS), cluster(current, receivers), options, INTERVAL_MS) == Request(total)


@pytest.mark.parametrize(("current", "further"), [(2, 1), (2, 2)])
def test_at_the_largest_number_nothing_is_requested(current: int, further: int) -> None:
    options = AllocationOptions(maxExecutors=2)
    assert decide(took(further * INTERVAL_MS), cluster(current, 1), options, INTERVAL_MS) is None


@pytest.mark.parametrize(
    ("count", "on", "least", "released"),
    [
        (1, "1", None, None),
        (2, "1", None, "2"),
        (2, "1 2", None, None),
        (2, "1", 2, None),
        (3, "1 2", 2, "3"),
    ],
)
def test_only_an_executor_without_receivers_above_the_least_number_is_released(
    count: int, on: str, least: int | None, released: str | None
) -> None:
    options = AllocationOptions(minExecutors=least)
    found = decide(took(100), cluster(count, len(on.split()), on=on, slots=4), options, INTERVAL_MS)
    assert found == (None if released is None else Release(released))


def test_without_an_executor_none_is_released() -> None:
    assert decide(took(100), cluster(0, 1), AllocationOptions(maxExecutors=2), INTERVAL_MS) == Request(1)


@pytest.mark.parametrize(("least", "most", "needed"), [(1, None, 3), (2, None, 3), (4, None, 4), (1, 2, 2)])
def test_receivers_and_one_task_keep_their_executors_whatever_the_least_number(
    least: int, most: int | None, needed: int
) -> None:
    options = AllocationOptions(minExecutors=least, maxExecutors=most)
    assert decide(Load(), cluster(1, 2, slots=1), options, INTERVAL_MS) == Request(needed)
    assert decide(took(100), cluster(needed, 2, on="1", slots=1), options, INTERVAL_MS) is None
    above = decide(took(100), cluster(needed + 1, 2, on="1", slots=1), options, INTERVAL_MS)
    assert above == Release(str(needed + 1))


def test_the_executor_with_the_least_backlog_is_released_first_and_of_equals_the_youngest() -> None:
    options = AllocationOptions()
    assert decide(took(1), cluster(4, 1, on="1", _2=5, _3=1, _4=9), options, INTERVAL_MS) == Release("3")
    assert decide(took(1), cluster(12, 1, on="1"), options, INTERVAL_MS) == Release("12")


def test_a_program_in_which_no_batch_completes_has_the_load_of_its_oldest_batch() -> None:
    assert decide(Load(waiting_ms=3000), cluster(2, 1), AllocationOptions(), INTERVAL_MS) == Request(5)
    assert decide(Load(waiting_ms=900), cluster(2, 1), AllocationOptions(), INTERVAL_MS) is None


def test_with_all_executors_lost_those_that_receivers_and_one_task_need_are_requested() -> None:
    assert decide(Load(), cluster(0, 2, slots=1), AllocationOptions(), INTERVAL_MS) == Request(3)
    assert decide(Load(), cluster(0, 3, slots=4), AllocationOptions(), INTERVAL_MS) == Request(1)


def test_nothing_is_released_while_a_batch_is_late() -> None:
    assert decide(Load(10, 1, waiting_ms=5000), cluster(3, 1, on="1"), AllocationOptions(), INTERVAL_MS) is None


@given(
    st.integers(0, 10_000),
    st.integers(0, 5),
    st.integers(0, 10_000),
    st.integers(0, 8),
    st.integers(0, 4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 6),
)
def test_a_decision_never_exceeds_a_bound_nor_ends_a_receiver(
    delay_ms: int, batches: int, waiting_ms: int, current: int, receivers: int, slots: int, least: int, above: int
) -> None:
    on = " ".join(str(number + 1) for number in range(min(receivers, current)))
    options = AllocationOptions(minExecutors=least, maxExecutors=least + above)
    load = Load(delay_ms * batches, batches, waiting_ms)
    match decide(load, cluster(current, receivers, on=on, slots=slots), options, INTERVAL_MS):
        case Request(total):
            assert current < total <= least + above
        case Release(executor_id):
            assert current > least
            assert executor_id not in on.split()
