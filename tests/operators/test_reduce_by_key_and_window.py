"""``reduceByKeyAndWindow``: one value a key and window."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


LEAVING: list[list[Any]] = [[("a", 1)], [("a", 1), ("b", 1)], [("a", 1)], [], [], [], [], []]


def test_without_an_inverse_a_key_leaves_with_its_values(run_all: Any) -> None:
    batches = [[("a", n)] for n in range(1, 7)] + [[], []]
    four = run_all({"": lambda stream: stream.reduceByKeyAndWindow(operator.add, None, 4, 2)}, batches)[""]
    assert [batch[0][1] for batch in four] == [3, 10, 18, 11]
    found = run_all(
        {
            "2": lambda stream: stream.reduceByKeyAndWindow(operator.add, None, 2),
            "filter": lambda stream: stream.reduceByKeyAndWindow(operator.add, None, 2, 1, 1, lambda pair: pair[1] > 5),
        },
        batches[4:],
    )
    assert found["2"] == [[("a", n)] for n in (5, 11, 6)] + [[]]
    assert found["filter"] == [[], *([("a", n)] for n in (11, 6)), []]


def test_with_an_inverse_a_key_stays_until_the_filter_drops_it(run_all: Any) -> None:
    found = run_all(
        {
            "inverse": lambda stream: stream.reduceByKeyAndWindow(operator.add, operator.sub, 5, 1),
            "filtered": lambda stream: stream.reduceByKeyAndWindow(
                operator.add, operator.sub, 5, 1, 2, lambda pair: pair[1] != 0
            ),
        },
        LEAVING,
    )
    full = [("a", 3), ("b", 1)]
    first = [[("a", 1)], [("a", 2), ("b", 1)], full, full, full, [("a", 2), ("b", 1)]]
    assert found["filtered"] == [*first, [("a", 1)], []]
    assert found["inverse"] == [*first, [("a", 1), ("b", 0)], [("a", 0), ("b", 0)]]


def test_a_short_window_is_made_anew_and_nothing_stays(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.reduceByKeyAndWindow(operator.add, operator.sub, 2, 1)

    batches = harness.run(operation, [[("a", 1)], [("a", 1)], [], []])
    assert batches == [[("a", 1)], [("a", 2)], [("a", 1)], []]
