"""``transform``: whatever a function makes of the RDD."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_a_function_makes_the_rdd(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda rdd: rdd.map(str).union(rdd.context.parallelize(["!"])))

    assert harness.run(operation, [[1], []]) == [["1", "!"], ["!"]]


def test_a_function_is_told_the_time(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda time, rdd: rdd.map(lambda n: (time.timestamp(), n)))

    assert harness.run(operation, [[1], [2]]) == [[(1.0, 1)], [(2.0, 2)]]


def test_a_function_that_returns_none_leaves_the_batch_out(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda time, rdd: None if time.timestamp() == 2 else rdd).map(lambda n: -n)

    assert harness.run(operation, [[1], [2], [3]]) == [[-1], [-3]]


def test_pair_rdds_of_the_jvm_can_be_returned(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda rdd: rdd.cartesian(rdd)).map(lambda pair: pair[0] + pair[1])

    assert [sorted(batch) for batch in harness.run(operation, [[1, 2]])] == [[2, 3, 3, 4]]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _rdd: [1], "the function given to transform returned list, not an RDD"),
        (lambda _rdd: 1 / 0, "ZeroDivisionError"),
        (lambda _rdd: next(iter(())), "StopIteration"),
    ],
    ids=["no RDD", "raises", "StopIteration"],
)
def test_a_function_that_fails_fails_the_batch(harness: StreamHarness, function: Any, message: str) -> None:
    with pytest.raises(BatchFailedError, match=message):
        harness.run(lambda stream: stream.transform(function), [[1]])
