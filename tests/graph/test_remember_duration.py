"""Windows and state over a thousand batches remember a bounded number of RDDs; without Spark."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.graph.node import Node
from penstock_state.tree_windows import TreeWindowDStream

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput

pytestmark = pytest.mark.usefixtures("tables")

# State is remembered for two checkpoint intervals, two hundred batches: this is five times as long.
BATCHES, SLIDE_S = 1_000, 0.1


def remembered(streams: set[Node]) -> int:
    # No public name for a leak: remembered RDDs and partial results.
    nodes = sum(len(stream._nodes) for stream in streams if isinstance(stream, TreeWindowDStream))
    return nodes + sum(len(stream._generated) for stream in streams)


def all_of(stream: Node) -> set[Node]:
    return {stream}.union(*(all_of(parent) for parent in stream.parents))


def test_remembered_rdds_stay_bounded_over_a_thousand_batches(
    context: FakeContext, make_input: Callable[..., FakeInput]
) -> None:
    pairs = make_input(lambda time_ms: [[("a", 1)], [(f"b{time_ms % 700}", 1)]])
    window = pairs.reduceByKeyAndWindow(operator.add, None, 40 * SLIDE_S)
    pairs.reduceByKeyAndWindow(operator.add, operator.sub, 10 * SLIDE_S, 2 * SLIDE_S).foreachRDD(lambda rdd: None)
    pairs.updateStateByKey(lambda values, state: sum(values) + (state or 0)).foreachRDD(lambda rdd: None)
    pairs.groupByKeyAndWindow(5 * SLIDE_S, SLIDE_S).foreachRDD(lambda rdd: None)
    window.window(4 * SLIDE_S, 2 * SLIDE_S).foreachRDD(lambda rdd: None)
    window.foreachRDD(lambda rdd: None)
    context.graph.start(0)
    streams = set().union(*(all_of(output) for output in context.graph.outputs))
    counts: list[int] = []
    for number in range(1, BATCHES + 1):
        assert len(context.graph.generate_jobs(number * 100)) == (5 if number % 2 == 0 else 3)
        context.graph.clear_metadata(number * 100, unpersist=True)
        if number % 200 == 0:
            counts.append(remembered(streams))
    # The RDDs of a state's parents are remembered as long as the state. The number of tree nodes varies by a few as the
    # window slides.
    assert max(counts[1:]) - min(counts[1:]) < 10
