"""``reduceByWindow`` and ``reduceByKeyAndWindow``: windows of several batches every second one, and their order."""

from __future__ import annotations

import operator
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_windows_are_reduced_in_the_order_of_time_with_and_without_an_inverse(run_all: Any) -> None:
    results = run_all(
        {
            "every 2": lambda numbers, _: numbers.reduceByWindow(operator.add, operator.sub, 4, 2),
            "text": lambda _, letters: letters.reduceByWindow(operator.add, None, 3, 1),
            "by key": lambda numbers, _: numbers.map(lambda n: ("a", n)).reduceByKeyAndWindow(operator.add, None, 4, 2),
        },
        [[1], [2], [3], [4], [5], []],
        [["a"], ["b"], [], ["c"], [], []],
    )
    assert results == {
        "every 2": [[3], [10], [12]],
        "text": [["a"], ["ab"], ["ab"], ["bc"], ["c"], ["c"]],
        "by key": [[("a", n)] for n in (3, 10, 12)],
    }
