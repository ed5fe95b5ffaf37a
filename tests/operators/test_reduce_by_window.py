"""``reduceByWindow``: one record a window."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_with_and_without_an_inverse(run_all: Any) -> None:
    found = run_all(
        {
            "without": lambda stream: stream.reduceByWindow(operator.add, None, 2, 1),
            "every 2": lambda stream: stream.reduceByWindow(operator.add, operator.sub, 4, 2),
            "inverse": lambda stream: stream.reduceByWindow(operator.add, operator.sub, 5, 1),
        },
        [[1], [2], [3], [4], [5], []],
    )
    assert found == {
        "without": [[1], [3], [5], [7], [9], [5]],
        "every 2": [[3], [10], [12]],
        "inverse": [[1], [3], [6], [10], [15], [14]],
    }


def test_records_are_reduced_in_the_order_of_time(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.reduceByWindow(operator.add, None, 3, 1)

    assert harness.run(operation, [["a"], ["b"], [], ["c"]]) == [["a"], ["ab"], ["ab"], ["bc"]]
