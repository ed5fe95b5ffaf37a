"""``window``: the records of the last batches."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


BATCHES = [[n] for n in range(6)]


def test_windows_overlap_tumble_and_leave_gaps(run_all: Any) -> None:
    found = run_all(
        {
            "2, default slide": lambda stream: stream.window(2),
            "2 every 1": lambda stream: stream.window(2, 1),
            "2 every 2": lambda stream: stream.window(2, 2),
            "4 every 2": lambda stream: stream.window(4, 2),
            "2 every 3": lambda stream: stream.window(2, 3),
        },
        BATCHES,
    )
    overlapping = [[0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert found == {
        "2, default slide": overlapping,
        "2 every 1": overlapping,
        "2 every 2": [[0, 1], [2, 3], [4, 5]],
        "4 every 2": [[0, 1], [0, 1, 2, 3], [2, 3, 4, 5]],
        "2 every 3": [[1, 2], [4, 5]],
    }


def test_windows_of_windows_empty_themselves(run_all: Any) -> None:
    found = run_all(
        {
            "window of 2 of a window of 2": lambda stream: stream.window(2).window(2),
        },
        [[1], [2], [3]],
        num_batches=5,
    )
    assert found["window of 2 of a window of 2"] == [[1], [1, 1, 2], [1, 2, 2, 3], [2, 3, 3], [3]]


def test_pysparks_numbers(harness: StreamHarness) -> None:
    batches = [list(range(n)) for n in range(1, 6)]
    expected = [[1], [3], [6], [9], [12], [9], [5]]
    assert harness.run(lambda stream: stream.window(3).count(), batches, num_batches=7) == expected
