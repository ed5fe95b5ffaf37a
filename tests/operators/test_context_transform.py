"""The context's ``transform``: one RDD of several streams'."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark


def test_three_streams_in_another_order_and_one_that_has_no_rdd(run_all: Any) -> None:
    def reordered(*streams: DStream[Any]) -> DStream[Any]:
        return streams[0].context().transform(streams, lambda rdds: rdds[1].union(rdds[2]).union(rdds[0]))

    def one_without(left: DStream[Any], right: DStream[Any], _third: DStream[Any]) -> DStream[Any]:
        without: DStream[Any] = right.transform(lambda _rdd: None)
        return left.context().transform([left, without], lambda rdds: rdds[0].union(rdds[1]))

    results = run_all({"reordered": reordered, "one without": one_without}, [[1]], [[2]], [[3]], sort=False)
    assert results == {"reordered": [[2, 3, 1]], "one without": [[1]]}
