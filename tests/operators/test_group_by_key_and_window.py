"""``groupByKeyAndWindow``: the values of each key in a window."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_windows_drop_what_left_and_keys_without_values(run_all: Any) -> None:
    found = run_all(
        {
            "of 3": lambda numbers, _pairs: numbers.groupByKeyAndWindow(3, 1).mapValues(list),
            "of 6": lambda _numbers, pairs: pairs.groupByKeyAndWindow(6, 1, 1).mapValues(list),
        },
        [[("a", n)] for n in range(5)],
        [[("a", 1), ("b", 2)], [("b", 3)]],
        num_batches=8,
    )
    # PySpark's numbers.
    expected = [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [4]]
    assert found["of 3"] == [*([("a", values)] for values in expected), []]
    both, late = [("a", [1]), ("b", [2, 3])], [("b", [3])]
    assert found["of 6"] == [[("a", [1]), ("b", [2])], both, both, both, both, both, late, []]
