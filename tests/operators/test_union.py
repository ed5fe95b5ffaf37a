"""``union``: the records of several streams."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_a_stream_without_an_rdd_has_no_records(run_all: Any) -> None:
    def but_the_first(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda time, rdd: None if time.timestamp() == 1 else rdd)

    operations = {
        "one": lambda left, right: left.union(but_the_first(right)),
        "both": lambda left, right: but_the_first(left).union(but_the_first(right)),
        "of the context": lambda left, right: left.context().union(but_the_first(right), left),
    }
    assert run_all(operations, [[1], [2]], [["a"], ["b"]], sort=False) == {
        "one": [[1], [2, "b"]],
        "both": [[], [2, "b"]],
        "of the context": [[1], ["b", 2]],
    }
