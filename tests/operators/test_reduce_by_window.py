"""``reduceByWindow``: one record a window."""

from __future__ import annotations

import operator
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_windows_are_reduced_in_the_order_of_time_with_and_without_an_inverse(run_all: Any) -> None:
    found = run_all(
        {
            "without": lambda numbers, _: numbers.reduceByWindow(operator.add, None, 2, 1),
            "every 2": lambda numbers, _: numbers.reduceByWindow(operator.add, operator.sub, 4, 2),
            "inverse": lambda numbers, _: numbers.reduceByWindow(operator.add, operator.sub, 5, 1),
            "text": lambda _, letters: letters.reduceByWindow(operator.add, None, 3, 1),
        },
        [[1], [2], [3], [4], [5], []],
        [["a"], ["b"], [], ["c"], [], []],
    )
    assert found == {
        "without": [[1], [3], [5], [7], [9], [5]],
        "every 2": [[3], [10], [12]],
        "inverse": [[1], [3], [6], [10], [15], [14]],
        "text": [["a"], ["ab"], ["ab"], ["bc"], ["c"], ["c"]],
    }
