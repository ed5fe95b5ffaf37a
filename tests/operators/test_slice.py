"""``slice``: the RDDs of past batches."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from penstock import DStream, StreamingContext
from penstock.errors import StreamingStateError

pytestmark = pytest.mark.spark


def test_slice_includes_both_ends_aligned_to_batches(run_outputs: Any) -> None:
    ends: list[tuple[Any, Any]] = [
        (0, 1),
        (0, 2),
        (1, 2),
        (2, 4),
        (3, 2),
        (3, 9),
        (0.5, 2.9),
        (datetime.fromtimestamp(2), datetime.fromtimestamp(3)),
    ]
    sliced: list[list[Any]] = []

    def program(stream: DStream[Any]) -> None:
        def look(time: datetime, _rdd: Any) -> None:
            if time.timestamp() == 4:
                for begin, end in ends:
                    rdds = source.slice(begin, end)
                    sliced.append(rdds[0].context.union(rdds).collect() if rdds else [])

        source = stream.map(lambda n: n * 10)
        stream.context().remember(4)
        source.foreachRDD(look)

    run_outputs(program, [[1], [2], [3], [4]])
    assert sliced == [[10], [10, 20], [10, 20], [20, 30, 40], [], [30, 40], [10, 20], [20, 30]]


def test_slice_before_the_start_is_refused(unstarted: StreamingContext) -> None:
    stream = unstarted.queueStream([[1]])
    with pytest.raises(StreamingStateError, match="has not been initialized"):
        stream.slice(0, 1)
