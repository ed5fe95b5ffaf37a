"""``countByWindow``: how many records in a window."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_counts_grow_and_shrink_with_the_window(run_all: Any) -> None:
    windows = {f"of {length}": lambda stream, length=length: stream.countByWindow(length, 1) for length in (2, 3, 5)}
    # Those of five batches come from the window before, so that they have a count of 0 too.
    assert run_all(windows, [[0], [0, 1], [0, 1, 2]], num_batches=8) == {
        "of 2": [[1], [3], [5], [3], [], [], [], []],
        "of 3": [[1], [3], [6], [5], [3], [], [], []],
        "of 5": [[1], [3], [6], [6], [6], [5], [3], [0]],
    }
