"""When a reduction by key shuffles, and into how many partitions; without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import add
from typing import Any, cast

import pytest
from pyspark.core.rdd import Partitioner, portable_hash
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeInput, FakeRDD, fake_shuffle

from penstock import DStream
from penstock.graph import per_batch
from penstock.spi import node_of

WORDS = ["a", "b", "a", "c"]
FREE_SLOTS = 3


@pytest.fixture
def shuffles(monkeypatch: pytest.MonkeyPatch, context: FakeContext) -> list[int]:
    """The number of partitions of each shuffle."""
    shuffles: list[int] = []

    def noted(chunks: FakeRDD, num_partitions: int) -> FakeRDD:
        shuffles.append(num_partitions)
        return fake_shuffle(chunks, num_partitions)

    monkeypatch.setattr(per_batch, "shuffled", noted)
    context.sparkContext.master = f"local[{FREE_SLOTS}]"
    context.sparkContext.defaultParallelism = FREE_SLOTS
    return shuffles


def batch_of(num_partitions: int) -> list[list[Any]]:
    """The words as pairs, in some partitions."""
    return [[(word, 1) for word in WORDS[n::num_partitions]] for n in range(num_partitions)]


def counted(stream: DStream[Any], context: FakeContext) -> FakeRDD:
    """The first batch of a stream of counts."""
    stream.foreachRDD(print)
    context.graph.start(0)
    return cast(FakeRDD, node_of(stream).get_or_compute(INTERVAL_MS))


@pytest.mark.parametrize(
    ("given", "asked", "shuffled", "number"),
    [
        (1, None, [], 1),
        (1, 1, [], 1),
        (0, None, [], 0),
        (1, 2, [2], 2),
        (0, 2, [2], 2),
        (0, 1, [1], 1),
        (2, 1, [1], 1),
        (2, None, [FREE_SLOTS], FREE_SLOTS),
    ],
)
@pytest.mark.parametrize(
    "reduce",
    [
        lambda pairs, asked: pairs.reduceByKey(add, asked),
        lambda pairs, asked: pairs.groupByKey(asked).mapValues(sum),
        lambda pairs, asked: pairs.combineByKey(int, add, add, asked),
    ],
    ids=["reduceByKey", "groupByKey", "combineByKey"],
)
def test_single_partition_is_reduced_without_a_shuffle_unless_another_number_is_asked_for(
    make_input: Callable[..., FakeInput],
    context: FakeContext,
    shuffles: list[int],
    reduce: Callable[..., DStream[Any]],
    given: int,
    asked: int | None,
    shuffled: list[int],
    number: int,
) -> None:
    result = counted(reduce(make_input(lambda _time_ms: batch_of(given)), asked), context)
    assert (shuffles, result.getNumPartitions()) == (shuffled, number)
    assert dict(result.collect()) == (Counter(WORDS) if given else {})


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("inverse", [None, lambda a, b: a - b], ids=["tree", "inverse"])
@pytest.mark.parametrize(("asked", "number"), [(None, FREE_SLOTS), (2, 2)])
def test_panes_of_a_window_always_have_the_same_number_of_partitions(
    make_input: Callable[..., FakeInput],
    context: FakeContext,
    shuffles: list[int],
    inverse: Any,
    asked: int | None,
    number: int,
) -> None:
    stream = make_input(lambda _time_ms: batch_of(1))
    result = counted(stream.reduceByKeyAndWindow(add, inverse, 3 * INTERVAL_MS / 1000, numPartitions=asked), context)
    assert (shuffles, result.getNumPartitions()) == ([number], number)


@pytest.mark.parametrize(("asked", "shuffled"), [(2, []), (FREE_SLOTS, [FREE_SLOTS])])
def test_input_that_is_partitioned_as_the_result_is_not_shuffled(
    make_input: Callable[..., FakeInput],
    context: FakeContext,
    shuffles: list[int],
    asked: int,
    shuffled: list[int],
) -> None:
    def partitioned(rdd: Any) -> Any:
        rdd.partitioner = Partitioner(2, portable_hash)
        return rdd

    stream = make_input(lambda _time_ms: batch_of(2)).transform(partitioned)
    counted(stream.reduceByKey(add, asked), context)
    assert shuffles == shuffled


@pytest.mark.parametrize(("given", "shuffled"), [(1, []), (2, [FREE_SLOTS])])
def test_values_of_a_single_partition_are_counted_without_a_shuffle(
    make_input: Callable[..., FakeInput], context: FakeContext, shuffles: list[int], given: int, shuffled: list[int]
) -> None:
    words = make_input(lambda _time_ms: batch_of(given)).map(lambda pair: pair[0])
    assert dict(counted(words.countByValue(), context).collect()) == Counter(WORDS)
    assert shuffles == shuffled
