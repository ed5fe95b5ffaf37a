"""Operators check their arguments when they are called, not in a task; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeInput

MakeInput = Callable[..., "FakeInput"]

NO_FUNCTION: dict[str, tuple[Callable[[Any], Any], str]] = {
    "map": (lambda stream: stream.map(5), "f"),
    "flatMap": (lambda stream: stream.flatMap(5), "f"),
    "filter": (lambda stream: stream.filter(5), "f"),
    "mapPartitions": (lambda stream: stream.mapPartitions(5), "f"),
    "mapPartitionsWithIndex": (lambda stream: stream.mapPartitionsWithIndex(5), "f"),
    "mapValues": (lambda stream: stream.mapValues(5), "f"),
    "flatMapValues": (lambda stream: stream.flatMapValues(5), "f"),
    "reduce": (lambda stream: stream.reduce(5), "func"),
    "reduceByKey": (lambda stream: stream.reduceByKey(5), "func"),
    "combineByKey": (lambda stream: stream.combineByKey(5, max, max), "createCombiner"),
    "combineByKey, values": (lambda stream: stream.combineByKey(str, 5, max), "mergeValue"),
    "combineByKey, combiners": (lambda stream: stream.combineByKey(str, max, 5), "mergeCombiners"),
    "partitionBy": (lambda stream: stream.partitionBy(2, 5), "partitionFunc"),
    "reduceByKeyAndWindow": (lambda stream: stream.reduceByKeyAndWindow(5, None, 1), "func"),
    "reduceByKeyAndWindow, inverse": (lambda stream: stream.reduceByKeyAndWindow(max, 5, 1), "invFunc"),
    "reduceByKeyAndWindow, filter": (
        lambda stream: stream.reduceByKeyAndWindow(max, None, 1, filterFunc=5),
        "filterFunc",
    ),
    "updateStateByKey": (lambda stream: stream.updateStateByKey(5), "updateFunc"),
}

PARTITIONED: dict[str, Callable[[Any, Any], Any]] = {
    "repartition": lambda stream, count: stream.repartition(count),
    "partitionBy": lambda stream, count: stream.partitionBy(count),
    "reduceByKey": lambda stream, count: stream.reduceByKey(max, count),
    "groupByKey": lambda stream, count: stream.groupByKey(count),
    "join": lambda stream, count: stream.join(stream, count),
    "cogroup": lambda stream, count: stream.cogroup(stream, count),
    "groupByKeyAndWindow": lambda stream, count: stream.groupByKeyAndWindow(1, 1, count),
    "updateStateByKey": lambda stream, count: stream.updateStateByKey(max, count),
}

TWO_STREAMS = (
    "union",
    "join",
    "cogroup",
    "leftOuterJoin",
    "rightOuterJoin",
    "fullOuterJoin",
)


@pytest.mark.parametrize(("operation", "argument"), NO_FUNCTION.values(), ids=NO_FUNCTION)
def test_argument_that_is_not_callable_is_refused(
    make_input: MakeInput, operation: Callable[[Any], Any], argument: str
) -> None:
    with pytest.raises(TypeError, match=f"^{argument} must be a function, not 5$"):
        operation(make_input())


@pytest.mark.parametrize("operation", PARTITIONED.values(), ids=PARTITIONED)
def test_number_of_partitions_must_be_a_positive_integer(
    make_input: MakeInput, operation: Callable[[Any, Any], Any]
) -> None:
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"numPartitions must be at least 1, not {count}"):
            operation(make_input(), count)
    for other in ("2", 2.0, True):
        with pytest.raises(TypeError, match=f"numPartitions must be a whole number, not {other!r}"):
            operation(make_input(), other)


@pytest.mark.parametrize("operator", TWO_STREAMS)
def test_second_operand_must_be_a_dstream(make_input: MakeInput, operator: str) -> None:
    with pytest.raises(TypeError, match=f"{operator} takes a DStream, not int"):
        getattr(make_input(), operator)(5)


def test_rdd_as_second_operand_is_refused_with_a_hint_at_transform(make_input: MakeInput) -> None:
    stream = make_input()
    stream.node.initialize(0)
    with pytest.raises(TypeError, match="transformWith takes a DStream, not FakeRDD; transform can use an RDD"):
        stream.transformWith(lambda a, b: a, stream.node.get_or_compute(100))  # type: ignore[call-overload]


def test_persist_refuses_the_name_of_a_storage_level(make_input: MakeInput) -> None:
    with pytest.raises(TypeError, match=r"persist takes a StorageLevel, such as .*, not 'MEMORY_ONLY'"):
        make_input().persist("MEMORY_ONLY")  # type: ignore[arg-type]
