"""``countByValueAndWindow``: how often each record in a window."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_values_are_counted_and_leave_with_the_window(run_all: Any) -> None:
    found = run_all(
        {
            "of 2": lambda stream: stream.countByValueAndWindow(2, 1),
            "of 5": lambda stream: stream.countByValueAndWindow(5, 1, 1),
        },
        [["a"], ["b", "b"], ["a", "b"]],
        num_batches=7,
    )
    both = [("a", 2), ("b", 3)]
    assert found["of 2"] == [[("a", 1)], [("a", 1), ("b", 2)], [("a", 1), ("b", 3)], [("a", 1), ("b", 1)], [], [], []]
    # The 0s of a window that is made from the one before are left out.
    assert found["of 5"] == [
        [("a", 1)],
        [("a", 1), ("b", 2)],
        both,
        both,
        both,
        [("a", 1), ("b", 3)],
        [("a", 1), ("b", 1)],
    ]
