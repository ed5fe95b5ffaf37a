"""``transformWith``: one RDD of two streams'."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


def test_a_function_makes_one_rdd_of_two(run_all: Any) -> None:
    def of_pairs(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transformWith(lambda a, b: a.cartesian(b), right)

    def of_the_time(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transformWith(lambda time, a, b: a.union(b).map(lambda x: (time.timestamp(), x)), right)

    def without(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transform(lambda _rdd: None).transformWith(lambda a, b: a.union(b), right, keepSerializer=True)

    def in_the_second(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transformWith(lambda time, a, b: a.union(b) if time.timestamp() > 1 else None, right)

    operations = {
        "pairs": of_pairs,
        "with the time": of_the_time,
        "a stream without an RDD gives an empty one": without,
        "None leaves the batch out": in_the_second,
    }
    assert run_all(operations, [[1], [2]], [["x"], []], sort=False) == {
        "pairs": [[(1, "x")], []],
        "with the time": [[(1.0, 1), (1.0, "x")], [(2.0, 2)]],
        "a stream without an RDD gives an empty one": [["x"], []],
        "None leaves the batch out": [[2]],
    }


def test_a_function_that_fails_fails_the_batch(harness: StreamHarness) -> None:
    with pytest.raises(BatchFailedError, match="returned int, not an RDD"):
        harness.run(lambda left, right: left.transformWith(lambda a, b: 1, right), [[1]], [[2]])
