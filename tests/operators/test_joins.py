"""Operators on two streams: the batches that come out, under the manual clock."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2

LEFT = [[("a", 1), ("b", 2)], [("c", 3)], []]
RIGHT = [[("a", "x"), ("a", "y")], [], [("d", "z")]]


def joined(name: str) -> Any:
    return lambda left, right: getattr(left, name)(right)


def test_join(run_all: Any) -> None:
    names = ("join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin")
    found = run_all({name: joined(name) for name in names}, LEFT, RIGHT)
    both = [("a", (1, "x")), ("a", (1, "y"))]
    left, right = ("b", (2, None)), ("d", (None, "z"))
    assert found == {
        "join": [both, [], []],
        "leftOuterJoin": [[*both, left], [("c", (3, None))], []],
        "rightOuterJoin": [both, [], [right]],
        "fullOuterJoin": [[*both, left], [("c", (3, None))], [right]],
    }


def test_cogroup(harness: StreamHarness) -> None:
    def lists(groups: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
        return sorted(groups[0]), sorted(groups[1])

    batches = harness.run(lambda left, right: left.cogroup(right, 2).mapValues(lists), LEFT, RIGHT)
    assert [sorted(batch) for batch in batches] == [
        [("a", ([1], ["x", "y"])), ("b", ([2], []))],
        [("c", ([3], []))],
        [("d", ([], ["z"]))],
    ]


def test_transform_with(harness: StreamHarness) -> None:
    def pairs(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transformWith(lambda a, b: a.cartesian(b), right)

    assert harness.run(pairs, [[1], [2]], [["x"], ["y"]]) == [[(1, "x")], [(2, "y")]]


def test_transform_with_the_time(harness: StreamHarness) -> None:
    def seconds(left: DStream[Any], right: DStream[Any]) -> DStream[Any]:
        return left.transformWith(lambda time, a, b: a.union(b).map(lambda x: (time.timestamp(), x)), right)

    assert harness.run(seconds, [[1], []], [[], [2]]) == [[(1.0, 1)], [(2.0, 2)]]


def test_partition_by(harness: StreamHarness) -> None:
    def by_parity(stream: DStream[Any]) -> DStream[Any]:
        return stream.partitionBy(2, lambda key: key % 2).glom()

    assert harness.run(by_parity, [[(1, "a"), (2, "b"), (3, "c")]]) == [[[(2, "b")], [(1, "a"), (3, "c")]]]


def test_the_context_transforms_several_streams_in_their_order(harness: StreamHarness) -> None:
    def reorder(*streams: DStream[Any]) -> DStream[Any]:
        return streams[0].context().transform(streams, lambda rdds: rdds[2].union(rdds[0]).union(rdds[1]))

    assert harness.run(reorder, [[1]], [[2]], [[3]]) == [[3, 1, 2]]


def test_functions_of_another_arity_are_refused(harness: StreamHarness) -> None:
    with pytest.raises(AssertionError, match="two or three arguments"):
        harness.run(lambda left, right: left.transformWith(lambda a: a, right), [[1]], [[2]])
