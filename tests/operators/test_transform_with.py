"""``transformWith``: one RDD of two streams'."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_streams_without_an_rdd_give_an_empty_one(harness: StreamHarness) -> None:
    def operation(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transform(lambda _rdd: None).transformWith(lambda a, b: a.union(b), right, keepSerializer=True)

    assert harness.run(operation, [[1]], [[2]]) == [[2]]


def test_a_function_that_returns_none_leaves_the_batch_out(harness: StreamHarness) -> None:
    def operation(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transformWith(lambda time, a, b: a.union(b) if time.timestamp() > 1 else None, right)

    assert harness.run(operation, [[1], [2]], [[3], [4]]) == [[2, 4]]


def test_a_function_that_fails_fails_the_batch(harness: StreamHarness) -> None:
    with pytest.raises(BatchFailedError, match="returned int, not an RDD"):
        harness.run(lambda left, right: left.transformWith(lambda a, b: 1, right), [[1]], [[2]])
