"""``union``: the records of several streams."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_streams_are_put_together(run_all: Any) -> None:
    def of_the_context(*streams: DStream[Any]) -> DStream[Any]:
        context = streams[0].context()
        assert context.union(streams[0]) is streams[0]
        return context.union(*streams)

    operations = {
        "two": lambda left, right, _third: left.union(right),
        "itself": lambda left, _right, _third: left.union(left),
        "any number": of_the_context,
    }
    assert run_all(operations, [[1], [2, 3], []], [["a"], [], ["b"]], [[4], [5], []], sort=False) == {
        "two": [[1, "a"], [2, 3], ["b"]],
        "itself": [[1, 1], [2, 3, 2, 3], []],
        "any number": [[1, "a", 4], [2, 3, 5], ["b"]],
    }
