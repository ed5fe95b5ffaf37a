"""``reduceByKeyAndWindow``: one value a key and window."""

from __future__ import annotations

import operator
from typing import Any

import pytest

pytestmark = pytest.mark.spark


RISING = [[("a", n)] for n in range(1, 6)]
LEAVING: list[list[Any]] = [[("a", 1)], [("a", 1), ("b", 1)], [("a", 1)]]


@pytest.fixture(scope="module")
def found(run_all: Any) -> dict[str, list[list[Any]]]:
    def plain(*options: Any) -> Any:
        return lambda rising, _leaving: rising.reduceByKeyAndWindow(operator.add, None, *options)

    def inverse(*options: Any) -> Any:
        return lambda _rising, leaving: leaving.reduceByKeyAndWindow(operator.add, operator.sub, *options)

    operations = {
        "4 every 2": plain(4, 2),
        "2": plain(2),
        "2, filtered": plain(2, 1, 1, lambda pair: pair[1] > 6),
        "inverse": inverse(5, 1),
        "inverse, filtered": inverse(5, 1, 2, lambda pair: pair[1] != 0),
        "inverse, short": inverse(2, 1),
    }
    batches: dict[str, list[list[Any]]] = run_all(operations, RISING, LEAVING, num_batches=8)
    return batches


def test_without_an_inverse_a_key_leaves_with_its_values(found: dict[str, list[list[Any]]]) -> None:
    assert found["4 every 2"] == [[("a", n)] for n in (3, 10, 12, 5)]
    assert found["2"] == [*([("a", n)] for n in (1, 3, 5, 7, 9, 5)), [], []]
    assert found["2, filtered"] == [[], [], [], [("a", 7)], [("a", 9)], [], [], []]


def test_with_an_inverse_a_key_stays_until_the_filter_drops_it(found: dict[str, list[list[Any]]]) -> None:
    full = [("a", 3), ("b", 1)]
    first = [[("a", 1)], [("a", 2), ("b", 1)], full, full, full, [("a", 2), ("b", 1)]]
    assert found["inverse, filtered"] == [*first, [("a", 1)], []]
    assert found["inverse"] == [*first, [("a", 1), ("b", 0)], [("a", 0), ("b", 0)]]


def test_a_short_window_is_reduced_anew_and_drops_keys_without_values(found: dict[str, list[list[Any]]]) -> None:
    both = [("a", 2), ("b", 1)]
    assert found["inverse, short"] == [[("a", 1)], both, both, [("a", 1)], [], [], [], []]
