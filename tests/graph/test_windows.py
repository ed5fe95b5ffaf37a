"""Windows compared with brute force: their batches, the order of values, and the cost; without Spark."""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark import RDD, StorageLevel
from tests.helpers.fake_graph import clear_metadata

from penstock.graph.dstream import DStream
from penstock.graph.windows import WindowedDStream
from penstock.spi import node_of
from penstock_state import co_partitioned

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput, FakeRDD

V = TypeVar("V")
Pairs = list[tuple[str, Any]]
# One batch: the pairs of each partition, or None for no RDD.
Batch = list[Pairs] | None

SLIDE_MS = 100
FIXTURES = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def merged(monkeypatch: pytest.MonkeyPatch, context: FakeContext) -> list[int]:
    """How many RDDs were merged at a time: stands in for Spark's union of co-partitioned RDDs, and for checkpoints."""
    merged: list[int] = []

    def union(_sc: Any, rdds: list[FakeRDD], num_partitions: int) -> FakeRDD:
        assert {rdd.getNumPartitions() for rdd in rdds} == {num_partitions}
        merged.append(len(rdds))
        united = zip(*(rdd.partitions for rdd in rdds), strict=True)
        # Records are pickled on their way: what a function does to its arguments stays in the task.
        return type(rdds[0])(copy.deepcopy([list(itertools.chain(*partitions)) for partitions in united]))

    monkeypatch.setattr(co_partitioned, "co_partitioned_union", union)
    monkeypatch.setattr(RDD, "checkpoint", lambda _rdd: None)
    monkeypatch.setattr(RDD, "isCheckpointed", lambda _rdd: False)
    return merged


class Program:
    """A stream of batches, and what an operation makes of it."""

    def __init__(
        self, make_input: Callable[..., FakeInput], batches: list[Batch], operation: Callable[[DStream[Any]], Any]
    ) -> None:
        self._batches = batches
        self.input = make_input(lambda time_ms: batches[time_ms // SLIDE_MS - 1])
        self.stream: Any = node_of(operation(self.input))
        self.stream.initialize(0)
        self.stream.remember(0)

    def run(self, clear_lag: int = 0) -> dict[int, list[Any] | None]:
        """The records by batch number; each batch is forgotten ``clear_lag`` batches later."""
        records_by_batch = {}
        for number in range(1, len(self._batches) + 1):
            if self.stream.is_time_valid(number * SLIDE_MS):
                rdd = self.stream.get_or_compute(number * SLIDE_MS)
                records_by_batch[number] = None if rdd is None else rdd.collect()
            clear_metadata(self.stream, (number - clear_lag) * SLIDE_MS)
        return records_by_batch


@pytest.fixture
def program(make_input: Callable[..., FakeInput]) -> Callable[..., Program]:
    return lambda batches, operation: Program(make_input, batches, operation)


def seconds(batches: int) -> float:
    return batches * SLIDE_MS / 1000


def in_window(batches: list[V | None], end: int, window: int) -> list[V]:
    """The batches of the window that ends with the end-th."""
    return [batch for batch in batches[max(end - window, 0) : end] if batch is not None]


def reduced(panes: Iterable[list[Pairs]], function: Callable[[Any, Any], Any]) -> dict[str, Any]:
    streams: dict[str, Any] = {}
    for key, value in itertools.chain.from_iterable(itertools.chain.from_iterable(panes)):
        streams[key] = function(streams[key], value) if key in streams else value
    return streams


def batches_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Batch]]:
    partition = st.lists(st.tuples(st.sampled_from("abc"), values), max_size=3)
    return st.lists(st.none() | st.lists(partition, max_size=2), min_size=1, max_size=24)


LETTERS = batches_of(st.text("xyz", min_size=1, max_size=2))
NUMBERS = batches_of(st.integers(1, 9))
WINDOW, SLIDE, LAG = st.integers(1, 13), st.integers(1, 4), st.integers(0, 3)


# -- against brute force --


@given(LETTERS, WINDOW, SLIDE, LAG)
@FIXTURES
def test_window_contains_the_records_of_its_batches(
    program: Callable[..., Program], batches: list[Batch], window: int, slide: int, lag: int
) -> None:
    windows = program(batches, lambda stream: stream.window(seconds(window), seconds(slide)))
    assert windows.run(lag) == {
        end: list(itertools.chain(*itertools.chain(*in_window(batches, end, window))))
        for end in range(slide, len(batches) + 1, slide)
    }


@given(LETTERS, WINDOW, SLIDE, LAG)
@FIXTURES
def test_reduced_window_preserves_the_order_of_time(
    program: Callable[..., Program], batches: list[Batch], window: int, slide: int, lag: int
) -> None:
    windows = program(
        batches, lambda stream: stream.reduceByKeyAndWindow(operator.add, None, seconds(window), seconds(slide), 2)
    )
    for end, records in windows.run(lag).items():
        expected = reduced(in_window(batches, end, window), operator.add)
        assert dict(records or ()) == expected
        assert len(records or ()) == len(expected)
    # Nothing was forgotten too early: no batch that has an RDD was asked for twice.
    asked = [time_ms for time_ms in windows.input.node.computed if batches[time_ms // SLIDE_MS - 1] is not None]
    assert len(asked) == len(set(asked))


@given(LETTERS, WINDOW, SLIDE, LAG)
@FIXTURES
def test_grouped_window_has_values_in_the_order_of_time(
    program: Callable[..., Program], batches: list[Batch], window: int, slide: int, lag: int
) -> None:
    windows = program(batches, lambda stream: stream.groupByKeyAndWindow(seconds(window), seconds(slide)))
    listed = [batch and [[(key, [value]) for key, value in part] for part in batch] for batch in batches]
    for end, records in windows.run(lag).items():
        assert {key: list(values) for key, values in records or ()} == reduced(
            in_window(listed, end, window), operator.add
        )


@given(NUMBERS, WINDOW, SLIDE, LAG)
@FIXTURES
def test_window_with_inverse_and_zero_filter_equals_the_recomputed_window(
    program: Callable[..., Program], batches: list[Batch], window: int, slide: int, lag: int
) -> None:
    windows = program(
        batches,
        lambda stream: stream.reduceByKeyAndWindow(
            operator.add, operator.sub, seconds(window), seconds(slide), 2, lambda pair: pair[1] != 0
        ),
    )
    for end, records in windows.run(lag).items():
        expected = reduced(in_window(batches, end, window), operator.add)
        assert dict(records or ()) == expected
        assert len(records or ()) == len(expected)


@given(NUMBERS, WINDOW, SLIDE, LAG)
@FIXTURES
def test_keys_stay_in_a_window_with_inverse_of_five_slides(
    program: Callable[..., Program], batches: list[Batch], window: int, slide: int, lag: int
) -> None:
    windows = program(
        batches,
        lambda stream: stream.reduceByKeyAndWindow(operator.add, operator.sub, seconds(window), seconds(slide)),
    )
    before: dict[str, int] = {}
    for end, records in windows.run(lag).items():
        panes = in_window(batches, end, window)
        expected = reduced(panes, operator.add)
        if window >= 5 * slide:
            expected = {**dict.fromkeys(before, 0), **expected}
        assert dict(records or ()) == expected
        before = expected


def test_window_with_inverse_adds_and_removes_each_batch_once(program: Callable[..., Program]) -> None:
    calls: list[tuple[str, int]] = []

    def add(one: int, other: int) -> int:
        calls.append(("add", other))
        return one + other

    def subtract(one: int, other: int) -> int:
        calls.append(("subtract", other))
        return one - other

    batches: list[Batch] = [[[("a", 2**number)]] for number in range(9)]
    windows = program(batches, lambda stream: stream.reduceByKeyAndWindow(add, subtract, seconds(5)))
    windows.run()
    assert calls.count(("subtract", 1)) == 1
    assert [number for name, number in calls if name == "subtract"] == [1, 2, 4, 8]
    assert [number for name, number in calls if name == "add"] == [2**number for number in range(1, 9)]


# -- cost --


@pytest.mark.parametrize("window", [16, 64, 256])
def test_slide_merges_logarithmically_many_panes(
    program: Callable[..., Program], merged: list[int], window: int
) -> None:
    batches: list[Batch] = [[[("a", "x")]] for _ in range(3 * window)]
    windows = program(batches, lambda stream: stream.reduceByKeyAndWindow(operator.add, None, seconds(window)))
    most = mean = 0.0
    for number in range(1, len(batches) + 1):
        merged.clear()
        rdd = windows.stream.get_or_compute(number * SLIDE_MS)
        assert rdd is not None
        assert rdd.collect() == [("a", "x" * min(number, window))]
        most, mean = max(most, sum(merged)), mean + sum(merged) / len(batches)
        clear_metadata(windows.stream, number * SLIDE_MS)
    levels = math.log2(window)
    assert mean <= levels + 2
    # Once, when the first batch leaves: the nodes that begin after it are made then.
    assert most <= levels * (levels + 5) / 2


def test_tree_nodes_that_no_window_reaches_are_forgotten(program: Callable[..., Program]) -> None:
    batches: list[Batch] = [[[("a", "x")]] for _ in range(100)]
    windows = program(batches, lambda stream: stream.reduceByKeyAndWindow(operator.add, None, seconds(8)))
    windows.run()
    # No public name for a leak: partial results that no window reaches.
    nodes = windows.stream._nodes
    assert 0 < len(nodes) <= 20
    assert all((number + 1) << level > 90 for level, number in nodes)


# -- what is kept --


def level(stream: DStream[Any]) -> StorageLevel | None:
    # A public name would have no other user: a stream persists its own RDDs.
    return node_of(stream)._storage_level


def test_persisting_a_window_persists_its_parent(make_input: Callable[..., FakeInput]) -> None:
    parent = make_input()
    window = parent.window(seconds(2))
    assert isinstance(node_of(window), WindowedDStream)
    assert (level(window), level(parent)) == (None, StorageLevel.MEMORY_ONLY)
    assert window.persist(StorageLevel.DISK_ONLY) is window
    assert (level(window), level(parent)) == (None, StorageLevel.DISK_ONLY)


def test_window_does_not_change_the_storage_level_of_its_parent(make_input: Callable[..., FakeInput]) -> None:
    parent = make_input().persist(StorageLevel.DISK_ONLY)
    parent.window(seconds(2))
    assert level(parent) == StorageLevel.DISK_ONLY


def test_nested_windows_extend_the_remember_durations_of_their_parents(make_input: Callable[..., FakeInput]) -> None:
    # Spark's numbers, in batches: remember 3, window 4 every 2 of window 2 every 1.
    mapped = make_input().map(str)
    inner = mapped.window(seconds(2), seconds(1))
    outer = inner.window(seconds(4), seconds(2))
    node_of(outer).initialize(0)
    node_of(outer).remember(3 * SLIDE_MS)
    assert [node_of(stream).remember_ms // SLIDE_MS for stream in (outer, inner, mapped)] == [3, 3 + 4, 3 + 4 + 2]
    for number in range(1, 11):
        node_of(outer).get_or_compute(number * SLIDE_MS)
        clear_metadata(node_of(outer), number * SLIDE_MS)
    outer_times, inner_times, mapped_times = (
        # No public name for a leak: remembered RDDs.
        {time_ms // SLIDE_MS for time_ms in node_of(stream)._generated}
        for stream in (outer, inner, mapped)
    )
    assert {10, 8} <= outer_times
    assert 6 not in outer_times
    assert {10, 4} <= inner_times
    assert 3 not in inner_times
    assert {10, 2} <= mapped_times
    assert 1 not in mapped_times


def test_checkpointed_stream_remembers_two_checkpoint_intervals(make_input: Callable[..., FakeInput]) -> None:
    pairs = make_input(lambda time_ms: [[("a", time_ms)]])
    states = pairs.updateStateByKey(lambda values, state: values[-1])
    states.checkpoint(seconds(3))
    (table,) = node_of(states).parents
    node_of(states).initialize(0)
    node_of(states).remember(0)
    assert table.remember_ms == 6 * SLIDE_MS
    for number in range(1, 11):
        node_of(states).get_or_compute(number * SLIDE_MS)
        clear_metadata(node_of(states), number * SLIDE_MS)
    # No public name for a leak: remembered RDDs.
    assert sorted(time_ms // SLIDE_MS for time_ms in table._generated) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("skipped", [{8}, {7, 8}, {6, 7, 8}])
def test_window_after_batches_that_were_not_generated_keeps_the_keys_of_the_windows_before(
    program: Callable[..., Program], skipped: set[int]
) -> None:
    """As it does when these batches run first, after a restart: the output of a batch does not depend on it."""
    batches: list[Batch] = [[[("a", 1)]]]
    batches += [[[]] for _ in range(9)]

    def windows(runs: Program, skipped: set[int]) -> dict[int, Any]:
        numbers = [number for number in range(1, len(batches) + 1) if number not in skipped]
        rdds = {number: runs.stream.get_or_compute(number * SLIDE_MS) for number in numbers}
        return {number: None if rdd is None else rdd.collect() for number, rdd in rdds.items()}

    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.reduceByKeyAndWindow(operator.add, operator.sub, 5 * SLIDE_MS / 1000, SLIDE_MS / 1000, 1)

    whole = windows(program(batches, operation), set())
    assert whole[9] == [("a", 0)]
    assert windows(program(batches, operation), skipped) == {
        number: records for number, records in whole.items() if number not in skipped
    }
