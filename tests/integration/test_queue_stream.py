"""Operators on a queue of RDDs: what PySpark's tests of the same operators pin down."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add
from typing import Any

import pytest

from penstock import DStream, StorageLevel, StreamingContext

pytestmark = pytest.mark.spark

Operation = Callable[[DStream[Any]], DStream[Any]]


@pytest.fixture
def run(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None]
) -> Callable[[list[list[Any]], Operation], list[list[Any]]]:
    """Runs an operation on batches and returns as many batches."""

    def run_operation(batches: list[list[Any]], operation: Operation) -> list[list[Any]]:
        ssc = make_ssc(0.1)
        collected = collect(operation(ssc.queueStream(batches)))
        ssc.start()
        wait_for(lambda: len(collected.all) >= len(batches), f"{len(batches)} batches")
        ssc.stop(stopSparkContext=False)
        return list(collected.all[: len(batches)])

    return run_operation


def _plus(increment: int, value: int) -> int:
    return value + increment


CASES: dict[str, tuple[list[list[Any]], Operation, list[list[Any]]]] = {
    "map": ([[1, 2], [3], []], lambda s: s.map(str), [["1", "2"], ["3"], []]),
    "map_partial": ([[1]], lambda s: s.map(partial(_plus, 5)), [[6]]),
    "flatMap": ([[1, 2], []], lambda s: s.flatMap(lambda x: [x] * x), [[1, 2, 2], []]),
    "filter": ([[1, 2, 3, 4]], lambda s: s.filter(lambda x: x % 2), [[1, 3]]),
    "mapPartitions": ([[1, 2, 3]], lambda s: s.repartition(1).mapPartitions(lambda it: [sum(it)]), [[6]]),
    "mapPartitionsWithIndex": (
        [[5, 6]],
        lambda s: s.repartition(1).mapPartitionsWithIndex(lambda i, it: ((i, x) for x in it)),
        [[(0, 5), (0, 6)]],
    ),
    "glom": ([[1, 2]], lambda s: s.repartition(1).glom(), [[[1, 2]]]),
    "reduce": ([[1, 2, 3], [4]], lambda s: s.reduce(add), [[6], [4]]),
    "count": ([[1, 2, 3], [4], []], lambda s: s.count(), [[3], [1], [0]]),
    "countByValue": ([["a", "b", "a"]], lambda s: s.countByValue(), [[("a", 2), ("b", 1)]]),
    "reduceByKey": ([[("a", 1), ("b", 1), ("a", 2)], []], lambda s: s.reduceByKey(add), [[("a", 3), ("b", 1)], []]),
    "combineByKey": (
        [[("a", 1), ("a", 2)]],
        lambda s: s.combineByKey(lambda v: [v], lambda c, v: [*c, v], lambda a, b: a + b).mapValues(sorted),
        [[("a", [1, 2])]],
    ),
    "groupByKey": ([[("a", 1), ("a", 2)]], lambda s: s.groupByKey().mapValues(sorted), [[("a", [1, 2])]]),
    "mapValues": ([[("a", 1)]], lambda s: s.mapValues(lambda v: v + 1), [[("a", 2)]]),
    "flatMapValues": ([[("a", 2)]], lambda s: s.flatMapValues(range), [[("a", 0), ("a", 1)]]),
    "union": ([[1], [2]], lambda s: s.union(s.map(lambda x: -x)), [[-1, 1], [-2, 2]]),
    "transform": ([[3, 1, 2]], lambda s: s.transform(lambda rdd: rdd.sortBy(lambda x: x)), [[1, 2, 3]]),
    "transform_with_time": ([[1]], lambda s: s.transform(lambda time, rdd: rdd.map(lambda x: x + 1)), [[2]]),
    "cache": ([[1, 2]], lambda s: s.map(lambda x: x + 1).cache().map(lambda x: x * 2), [[4, 6]]),
    "persist": ([[1]], lambda s: s.map(str).persist(StorageLevel.DISK_ONLY), [["1"]]),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, run: Callable[..., list[list[Any]]]) -> None:
    batches, operation, expected = CASES[name]
    assert [sorted(batch) for batch in run(batches, operation)] == expected


def test_partitions_keep_their_number(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    batches = collect(ssc.queueStream([[1, 2, 3, 4]]).repartition(3).glom())
    ssc.start()
    wait_for(lambda: batches.all, "a batch")
    assert len(batches.all[0]) == 3


def test_all_at_once_and_a_default(ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]) -> None:
    batches = collect(ssc.queueStream([[1], [2], [3]], oneAtATime=False, default=[9]))
    ssc.start()
    wait_for(lambda: len(batches.all) >= 2, "two batches")
    assert batches.all[:2] == [[1, 2, 3], [9]]


def test_pprint_prints_as_pyspark_does(
    ssc: StreamingContext, wait_for: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []
    ssc.queueStream([[1, 2, 3]]).pprint(2)

    def has_printed() -> bool:
        printed.append(capfd.readouterr().out)
        return "..." in "".join(printed)

    ssc.start()
    wait_for(has_printed, "the batch's print")
    rule, time, rule_again, *rest = "".join(printed).splitlines()[:7]
    assert rule == rule_again == "-" * 43
    assert time.startswith("Time: 20")
    assert rest == ["1", "2", "...", ""]


def test_the_batch_time_reaches_the_output(ssc: StreamingContext, wait_for: Callable[..., None]) -> None:
    times: list[Any] = []
    ssc.queueStream([[1]]).foreachRDD(lambda time, rdd: times.append(time))
    ssc.start()
    wait_for(lambda: len(times) >= 2, "two batches")
    assert round((times[1] - times[0]).total_seconds(), 3) == 0.2
