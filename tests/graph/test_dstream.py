"""``DStream`` and its nodes; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import StorageLevel
from tests.helpers.fake_graph import clear_metadata

from penstock.errors import StreamingStateError
from penstock.graph.dstream import DStream
from penstock.graph.per_batch import UnionDStream
from penstock.spi import node_of

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput

MakeInput = Callable[..., "FakeInput"]
Run = Callable[[DStream[Any], int], Any]


def plus_one(n: int) -> int:
    return n + 1


def test_a_stream_has_rdds_at_multiples_of_its_slide_after_zero_time(make_input: MakeInput) -> None:
    stream = make_input()
    with pytest.raises(StreamingStateError, match="FakeInputNode has not been initialized"):
        stream.node.is_time_valid(100)
    stream.node.initialize(1000)
    assert [time for time in range(0, 1500, 50) if stream.node.is_time_valid(time)] == [1100, 1200, 1300, 1400]
    assert stream.node.get_or_compute(1150) is None
    assert stream.node.get_or_compute(1000) is None
    assert stream.node.computed == []


def test_zero_time_is_fixed_once(make_input: MakeInput) -> None:
    stream = make_input()
    stream.node.initialize(1000)
    stream.node.initialize(1000)
    with pytest.raises(StreamingStateError, match="another zero time"):
        stream.node.initialize(2000)


def test_rdd_of_a_batch_is_computed_once(make_input: MakeInput) -> None:
    stream = make_input()
    stream.node.initialize(0)
    assert stream.node.get_or_compute(100) is stream.node.get_or_compute(100)
    assert stream.node.computed == [100]


def test_batch_without_an_rdd_is_computed_once_until_it_is_forgotten(make_input: MakeInput) -> None:
    stream = make_input(lambda _time_ms: None)
    stream.node.initialize(0)
    assert [stream.node.get_or_compute(100), stream.node.get_or_compute(100)] == [None, None]
    assert stream.node.computed == [100]
    stream.node.clear_metadata(300, unpersist=True)
    stream.node.get_or_compute(100)
    assert stream.node.computed == [100, 100]


def test_transform_without_a_result_runs_once_for_all_children(make_input: MakeInput) -> None:
    calls: list[Any] = []
    stream: DStream[Any] = make_input().transform(lambda rdd: calls.append(rdd))
    for child in (stream.map(plus_one), stream.filter(bool)):
        node_of(child).initialize(0)
        assert node_of(child).get_or_compute(100) is None
    assert len(calls) == 1


@pytest.mark.parametrize("empty", [[], [[]], [[], []]], ids=["no partition", "one", "two"])
def test_reductions_of_an_empty_batch(make_input: MakeInput, run: Run, empty: list[list[int]]) -> None:
    assert run(make_input(lambda _: empty).reduce(lambda a, b: a + b), 100) == []
    assert run(make_input(lambda _: empty).count(), 100) == [0]
    assert run(make_input(lambda _: empty).countByValue(), 100) == []


def test_a_batch_without_an_rdd_has_none_after_an_operator(make_input: MakeInput, run: Run) -> None:
    nothing = make_input(lambda _time_ms: None)
    for stream in (
        nothing.map(plus_one),
        nothing.reduceByKey(max),
        nothing.transform(lambda rdd: rdd),
        nothing.count(),
        nothing.map(plus_one).filter(plus_one),
    ):
        assert run(stream, 100) is None


def test_a_chain_of_operators_is_one_pass(make_input: MakeInput, run: Run) -> None:
    source = make_input()
    chain = source.map(plus_one).filter(lambda n: n % 2).flatMap(lambda n: [n, n]).map(str)
    assert run(chain, 100) == ["101", "101", "103", "103"]
    assert source.node.made[100].done == ["mapPartitionsWithIndex False"]


def test_map_side_of_reduce_by_key_is_fused_with_the_operators_before_it(make_input: MakeInput, run: Run) -> None:
    source = make_input(lambda _: [["a b", "a"]])
    counts = source.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    assert sorted(run(counts, 100)) == [("a", 2), ("b", 1)]
    assert source.node.made[100].done == ["mapPartitionsWithIndex False"]


def test_partitioning_is_preserved_when_every_step_preserves_it(make_input: MakeInput, run: Run) -> None:
    keeping, losing = make_input(lambda _: [[("a", 1)]]), make_input(lambda _: [[("a", 1)]])
    run(keeping.filter(bool).mapValues(plus_one).map(tuple, True), 100)
    run(losing.filter(bool).map(tuple).mapValues(plus_one), 100)
    assert keeping.node.made[100].done == ["mapPartitionsWithIndex True"]
    assert losing.node.made[100].done == ["mapPartitionsWithIndex False"]


def test_persisted_stream_is_computed_once_for_all_children(make_input: MakeInput) -> None:
    calls: list[int] = []

    def noted(n: int) -> int:
        calls.append(n)
        return n

    source = make_input()
    kept = source.map(noted).cache()
    children = [kept.map(plus_one), kept.filter(bool), kept.count()]
    for child in children:
        node_of(child).initialize(0)
        assert node_of(child).get_or_compute(100) is not None
    assert calls == [100, 101, 102]
    assert source.node.made[100].done == ["mapPartitionsWithIndex False"]
    rdd: Any = node_of(kept).get_or_compute(100)
    assert rdd.done[0] == f"persist {StorageLevel.MEMORY_ONLY}"
    assert rdd.done.count(f"persist {StorageLevel.MEMORY_ONLY}") == 1


def test_stream_is_persisted_at_the_given_level(make_input: MakeInput) -> None:
    source = make_input()
    assert source.persist(StorageLevel.DISK_ONLY) is source
    source.node.initialize(0)
    source.node.get_or_compute(100)
    assert source.node.made[100].done == [f"persist {StorageLevel.DISK_ONLY}"]


def test_old_rdds_are_forgotten_in_the_stream_and_its_parents(make_input: MakeInput) -> None:
    source = make_input()
    kept = source.map(plus_one).cache()
    node_of(kept).initialize(0)
    node_of(kept).remember(200)
    rdds: dict[int, Any] = {time_ms: node_of(kept).get_or_compute(time_ms) for time_ms in range(100, 600, 100)}
    clear_metadata(node_of(kept), 500)
    assert {time_ms: "unpersist" in rdd.done for time_ms, rdd in rdds.items()} == {
        100: True,
        200: True,
        300: True,
        400: False,
        500: False,
    }
    assert node_of(kept).get_or_compute(400) is rdds[400]
    assert node_of(kept).get_or_compute(300) is not rdds[300]
    assert source.node.computed == [100, 200, 300, 400, 500, 300]
    assert all("unpersist" not in rdd.done for rdd in source.node.made.values())


def test_without_unpersist_old_rdds_are_forgotten_but_stay_persisted(make_input: MakeInput) -> None:
    source = make_input()
    source.cache()
    source.node.initialize(0)
    source.node.get_or_compute(100)
    source.node.clear_metadata(500, unpersist=False)
    assert "unpersist" not in source.node.made[100].done
    source.node.get_or_compute(100)
    assert source.node.computed == [100, 100]


def test_remember_duration_is_at_least_one_slide_and_never_shrinks(make_input: MakeInput) -> None:
    source = make_input()
    child = source.map(plus_one)
    node_of(child).initialize(0)
    assert (node_of(child).remember_ms, source.node.remember_ms) == (100, 100)
    node_of(child).remember(300)
    assert (node_of(child).remember_ms, source.node.remember_ms) == (300, 300)
    node_of(child).remember(200)
    assert (node_of(child).remember_ms, node_of(source).remember_ms) == (300, 300)


def test_a_union_has_the_records_of_all_in_order(make_input: MakeInput, run: Run, context: FakeContext) -> None:
    one, other = make_input(lambda _: [["a"], ["b"]]), make_input(lambda _: [["c"]])
    assert run(one.union(other), 100) == ["a", "b", "c"]
    assert run(DStream(UnionDStream(context.graph, [other.node, one.node, other.node]), one.context()), 100) == [
        "c",
        "a",
        "b",
        "c",
    ]


def test_a_union_has_no_records_of_a_stream_without_an_rdd(make_input: MakeInput, run: Run) -> None:
    nothing = make_input(lambda _: None)
    assert run(make_input(lambda _: [["a"]]).union(nothing), 100) == ["a"]
    assert run(nothing.union(nothing), 100) == []


def test_a_union_of_streams_with_other_slides_is_refused(
    make_input: MakeInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = make_input(), make_input().map(plus_one)
    monkeypatch.setattr(node_of(other), "slide_ms", 200)
    with pytest.raises(ValueError, match="same slide duration"):
        one.union(other)


def test_transform_gets_the_rdd_or_the_time_and_the_rdd(make_input: MakeInput, run: Run) -> None:
    seen: list[Any] = []

    def with_time(time: datetime, rdd: Any) -> Any:
        seen.append(time)
        return rdd

    assert run(make_input().transform(lambda rdd: rdd), 100) == [100, 101, 102]
    assert run(make_input().transform(with_time), 100) == [100, 101, 102]
    assert seen == [datetime.fromtimestamp(0.1)]
    assert seen[0].tzinfo is None


def test_transform_runs_once_a_batch(make_input: MakeInput) -> None:
    calls: list[Any] = []

    def noted(rdd: Any) -> Any:
        calls.append(rdd)
        return rdd

    stream = make_input().transform(noted)
    for child in (stream.map(plus_one), stream.filter(bool)):
        node_of(child).initialize(0)
        node_of(child).get_or_compute(100)
    assert len(calls) == 1


def test_transform_may_return_none_and_nothing_but_an_rdd_else(make_input: MakeInput, run: Run) -> None:
    assert run(make_input().transform(lambda rdd: None), 100) is None
    with pytest.raises(TypeError, match="returned list, not an RDD"):
        run(make_input().transform(lambda rdd: [1]), 100)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("method", ["transform", "foreachRDD"])
def test_a_function_of_another_number_of_arguments_is_refused(make_input: MakeInput, method: str) -> None:
    with pytest.raises(AssertionError, match="func should take one or two arguments"):
        getattr(make_input(), method)(lambda a, b, c: None)


def test_nothing_can_be_added_once_the_context_was_started(make_input: MakeInput, context: FakeContext) -> None:
    stream = make_input()
    context.refuses = "after starting a context is not supported"
    for add in (
        lambda: stream.map(plus_one),
        lambda: stream.cache(),
        lambda: stream.foreachRDD(print),
        lambda: stream.union(stream),
        make_input,
    ):
        with pytest.raises(StreamingStateError, match="after starting a context is not supported"):
            add()


def test_a_stream_knows_its_context(make_input: MakeInput, context: FakeContext) -> None:
    assert make_input().map(plus_one).context() is context  # type: ignore[comparison-overlap]  # it stands in for one
