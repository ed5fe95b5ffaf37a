"""``union``: the records of several streams."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_two_streams_are_put_together(harness: StreamHarness) -> None:
    def operation(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.union(right)

    assert harness.run(operation, [[1], [2, 3], []], [["a"], [], ["b"]]) == [[1, "a"], [2, 3], ["b"]]


def test_the_context_unites_any_number(harness: StreamHarness) -> None:
    def operation(*streams: DStream[Any]) -> DStream[Any]:
        context = streams[0].context()
        assert context.union(streams[0]) is streams[0]
        return context.union(*streams)

    assert harness.run(operation, [[1], []], [[2], [3]], [[4], [5]]) == [[1, 2, 4], [3, 5]]


def test_a_stream_is_united_with_itself(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.union(stream)

    assert harness.run(operation, [[1], [2]]) == [[1, 1], [2, 2]]


def test_a_stream_without_an_rdd_cannot_be_united(harness: StreamHarness) -> None:
    def operation(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.union(right.transform(lambda _rdd: None))

    with pytest.raises(BatchFailedError, match=r"could not make the RDD of TransformedDStream, .* at time 1000 ms"):
        harness.run(operation, [[1]], [[2]])
