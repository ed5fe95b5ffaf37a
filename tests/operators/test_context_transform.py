"""The context's ``transform``: one RDD of several streams'."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_three_streams_in_another_order(harness: StreamHarness) -> None:
    def operation(*streams: DStream[Any]) -> DStream[Any]:
        return streams[0].context().transform(streams, lambda rdds: rdds[1].union(rdds[2]).union(rdds[0]))

    assert harness.run(operation, [[1]], [[2]], [[3]]) == [[2, 3, 1]]


def test_a_stream_without_an_rdd_gives_an_empty_one(harness: StreamHarness) -> None:
    def operation(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        without = right.transform(lambda _rdd: None)
        return left.context().transform([left, without], lambda rdds: rdds[0].union(rdds[1]))

    assert harness.run(operation, [[1]], [[2]]) == [[1]]
