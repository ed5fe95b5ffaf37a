"""How operators fail on invalid records, keys and functions; without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import RDD

from penstock import StateSpec
from penstock.spi import node_of
from penstock_state import co_partitioned
from penstock_state.partition_errors import StateUpdateError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.fake_graph import FakeContext, FakeInput, FakeRDD

SLIDE_MS = 100


def stop(*_arguments: Any) -> Any:
    raise StopIteration


def first(one: Any, _other: Any) -> Any:
    return one


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, context: FakeContext, tmp_path: Path) -> None:
    """What streams ask of Spark, done with fake RDDs."""

    def union(_sc: Any, rdds: list[FakeRDD], num_partitions: int) -> FakeRDD:
        united = zip(*(rdd.partitions for rdd in rdds), strict=True)
        return type(rdds[0])([list(itertools.chain(*partitions)) for partitions in united])

    def partition_by(rdd: FakeRDD, number: int, function: Callable[[Any], int]) -> FakeRDD:
        shuffled: list[list[Any]] = [[] for _ in range(number)]
        for key, value in rdd.collect():
            shuffled[function(key) % number].append((key, value))
        return type(rdd)(shuffled)

    monkeypatch.setattr(co_partitioned, "co_partitioned_union", union)
    monkeypatch.setattr(RDD, "checkpoint", lambda _rdd: None)
    monkeypatch.setattr(type(context.sparkContext.emptyRDD()), "partitionBy", partition_by)
    context.graph.state_home = str(tmp_path)


BY_KEY: dict[str, Callable[..., Any]] = {
    "reduceByKey": lambda stream, _other: stream.reduceByKey(max),
    "combineByKey": lambda stream, _other: stream.combineByKey(str, max, max),
    "groupByKey": lambda stream, _other: stream.groupByKey(),
    "partitionBy": lambda stream, _other: stream.partitionBy(2),
    "cogroup": lambda stream, other: stream.cogroup(other),
    "cogroup, other": lambda stream, other: other.cogroup(stream),
    "join": lambda stream, other: stream.join(other),
    "leftOuterJoin": lambda stream, other: stream.leftOuterJoin(other),
    "rightOuterJoin": lambda stream, other: stream.rightOuterJoin(other),
    "fullOuterJoin": lambda stream, other: other.fullOuterJoin(stream),
    "groupByKeyAndWindow": lambda stream, _other: stream.groupByKeyAndWindow(0.2, 0.1),
    "reduceByKeyAndWindow": lambda stream, _other: stream.reduceByKeyAndWindow(max, None, 0.2),
    "reduceByKeyAndWindow, inverse": lambda stream, _other: stream.reduceByKeyAndWindow(max, min, 0.5),
    "updateStateByKey": lambda stream, _other: stream.updateStateByKey(lambda values, state: 1),
    "updateStateByKey, initial": lambda stream, other: other.updateStateByKey(
        lambda values, state: 1, initialRDD=[([], 1)]
    ),
    "mapWithState": lambda stream, _other: stream.mapWithState(StateSpec.function(lambda key, value, state: 1)),
    "mapWithState, initial": lambda stream, other: other.mapWithState(
        StateSpec[Any, Any, Any, int](lambda key, value, state: 1).initialState([([], 1)])
    ),
    "countByValue": lambda stream, _other: stream.map(lambda pair: pair[0]).countByValue(),
    "countByValueAndWindow": lambda stream, _other: stream.map(lambda pair: pair[0]).countByValueAndWindow(0.2, 0.1),
}
MADE_OF_RECORDS = ("countByValue", "countByValueAndWindow")


def fails(stream: Any) -> bool:
    """Compute a batch; whether what it holds is a failure."""
    node_of(stream).initialize(0)
    return node_of(stream).get_or_compute(SLIDE_MS) is None


@pytest.mark.parametrize("name", BY_KEY)
def test_unhashable_keys_fail_with_advice(make_input: Callable[..., FakeInput], name: str) -> None:
    stream, other = make_input(lambda _: [[([], 1)]]), make_input(lambda _: [[]])
    message = r"the key \[\] \(list\) cannot be hashed; make it a tuple, a string or another immutable value first"
    with pytest.raises(TypeError, match=message):
        fails(BY_KEY[name](stream, other))


@pytest.mark.parametrize("record", [5, (1, 2, 3), None], ids=str)
@pytest.mark.parametrize("name", [name for name in BY_KEY if "initial" not in name and name not in MADE_OF_RECORDS])
def test_records_that_are_not_pairs_fail_with_advice(
    make_input: Callable[..., FakeInput], name: str, record: Any
) -> None:
    stream, other = make_input(lambda _: [[record]]), make_input(lambda _: [[]])
    with pytest.raises(
        TypeError, match=r"take \(key, value\) pairs, and a record is .*; make pairs first, with map"
    ) as raised:
        fails(BY_KEY[name](stream, other))
    assert f"{record!r} ({type(record).__name__})" in str(raised.value)


TAKING_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "map": lambda stream: stream.map(stop),
    "flatMap": lambda stream: stream.flatMap(stop),
    "filter": lambda stream: stream.filter(stop),
    "mapPartitions": lambda stream: stream.mapPartitions(lambda records: stop()),
    "mapPartitionsWithIndex": lambda stream: stream.mapPartitionsWithIndex(lambda index, records: stop()),
    "reduce": lambda stream: stream.reduce(stop),
    "reduceByWindow": lambda stream: stream.reduceByWindow(stop, None, 0.2, 0.1),
    "reduceByWindow, inverse": lambda stream: stream.reduceByWindow(max, stop, 0.5, 0.1),
    "mapValues": lambda stream: stream.mapValues(stop),
    "flatMapValues": lambda stream: stream.flatMapValues(stop),
    "reduceByKey": lambda stream: stream.reduceByKey(stop),
    "combineByKey, create": lambda stream: stream.combineByKey(stop, first, first),
    "combineByKey, value": lambda stream: stream.combineByKey(str, stop, first),
    "combineByKey, combiners": lambda stream: stream.combineByKey(str, first, stop),
    "reduceByKeyAndWindow": lambda stream: stream.reduceByKeyAndWindow(stop, None, 0.2),
    "reduceByKeyAndWindow, inverse": lambda stream: stream.reduceByKeyAndWindow(first, stop, 0.5),
    "reduceByKeyAndWindow, filter": lambda stream: stream.reduceByKeyAndWindow(first, None, 0.2, filterFunc=stop),
    "updateStateByKey": lambda stream: stream.updateStateByKey(stop),
    "mapWithState": lambda stream: stream.mapWithState(StateSpec.function(lambda key, value, state: stop())),
}


@pytest.mark.parametrize("name", TAKING_FUNCTIONS)
def test_stop_iteration_of_a_user_function_fails_the_batch(make_input: Callable[..., FakeInput], name: str) -> None:
    # Something leaves the windows of five batches in the sixth.
    stream = make_input(lambda time_ms: [[("a", 1), ("a", 2)], [("a", 3), ("a", 4)]] if time_ms == SLIDE_MS else [[]])
    derived: Any = TAKING_FUNCTIONS[name](stream)
    node_of(derived).initialize(0)

    def run() -> None:
        for number in range(1, 7):
            node_of(derived).get_or_compute(number * SLIDE_MS)

    with pytest.raises((RuntimeError, StateUpdateError), match="StopIteration"):
        run()
