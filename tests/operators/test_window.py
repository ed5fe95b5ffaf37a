"""``window``: the records of the last batches."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


BATCHES = [[n] for n in range(6)]


def test_windows_overlap_tumble_leave_gaps_and_empty_themselves(run_all: Any) -> None:
    results = run_all(
        {
            "2 every 2": lambda stream, _lists: stream.window(2, 2),
            "2 of 2": lambda stream, _lists: stream.window(2).window(2),
            # PySpark's numbers.
            "3, counted": lambda _stream, lists: lists.window(3).count(),
        },
        BATCHES,
        [list(range(n)) for n in range(1, 6)],
        num_batches=8,
    )
    assert results == {
        "2 every 2": [[0, 1], [2, 3], [4, 5], []],
        "2 of 2": [[0], [0, 0, 1], [0, 1, 1, 2], [1, 2, 2, 3], [2, 3, 3, 4], [3, 4, 4, 5], [4, 5, 5], [5]],
        "3, counted": [[1], [3], [6], [9], [12], [9], [5], [0]],
    }
