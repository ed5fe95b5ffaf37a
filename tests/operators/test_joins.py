"""Operators on two streams: the batches that come out, under the manual clock."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark

LEFT = [[("a", 1), ("b", 2)], [("c", 3)], []]
RIGHT = [[("a", "x"), ("a", "y")], [], [("d", "z")]]


def joined(name: str) -> Any:
    return lambda left, right: getattr(left, name)(right)


def lists(groups: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    return sorted(groups[0]), sorted(groups[1])


def test_joins_and_cogroup_combine_values_of_the_same_key(run_all: Any) -> None:
    names = ("join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin")
    operations = {name: joined(name) for name in names}
    found = run_all({**operations, "cogroup": lambda left, right: left.cogroup(right, 2).mapValues(lists)}, LEFT, RIGHT)
    both = [("a", (1, "x")), ("a", (1, "y"))]
    left, right = ("b", (2, None)), ("d", (None, "z"))
    assert found == {
        "join": [both, [], []],
        "leftOuterJoin": [[*both, left], [("c", (3, None))], []],
        "rightOuterJoin": [both, [], [right]],
        "fullOuterJoin": [[*both, left], [("c", (3, None))], [right]],
        "cogroup": [[("a", ([1], ["x", "y"])), ("b", ([2], []))], [("c", ([3], []))], [("d", ([], ["z"]))]],
    }
