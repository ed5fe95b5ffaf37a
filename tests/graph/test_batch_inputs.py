"""The inputs from which nodes read the columns of a batch, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import StorageLevel
from tests.helpers.fake_blocks import TEXT, Reader, initialized
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeInput, FakeRDD

from penstock import ArrowInput, DStream
from penstock.graph.input_dstreams import PulledInputDStream
from penstock.graph.per_batch import MapPartitionsDStream, UnionDStream
from penstock.plugins.specs import SourceBatch
from penstock.spark.rdds import known_partitions
from penstock.spi import node_of


def references(inputs: Any) -> list[Any]:
    return [[pickle.loads(payload) for payload in batch_input.references] for batch_input in inputs]


def test_blocks_are_read_by_reference(lines: DStream[Any]) -> None:
    node = initialized(lines)
    (batch_input,) = node.batch_inputs(INTERVAL_MS)
    assert (references([batch_input]), batch_input.read, batch_input.schema()) == ([[INTERVAL_MS]], Reader(), TEXT)
    assert node.batch_inputs(2 * INTERVAL_MS) == ()


def test_rows_and_columns_of_a_batch_share_its_partitions(lines: DStream[Any]) -> None:
    node = initialized(lines)
    (batch_input,) = node.batch_inputs(INTERVAL_MS)
    elements, read = batch_input.elements(node.graph.placeholder_rdds)
    rdd = node.get_or_compute(INTERVAL_MS)
    assert (rdd.prev, rdd.func) == (elements, read)


def test_a_window_is_read_from_the_blocks_of_its_batches(lines: DStream[Any]) -> None:
    node = initialized(lines.window(4 * INTERVAL_MS / 1000))
    assert references(node.batch_inputs(3 * INTERVAL_MS)) == [[INTERVAL_MS], [3 * INTERVAL_MS]]


def test_a_union_is_read_from_the_blocks_of_all(lines: DStream[Any]) -> None:
    node = initialized(lines.union(lines))
    assert node.has_columns
    assert references(node.batch_inputs(INTERVAL_MS)) == [[INTERVAL_MS, INTERVAL_MS]]


def test_a_union_has_no_inputs_of_a_parent_without_a_batch(context: FakeContext, lines: DStream[Any]) -> None:
    node = UnionDStream(context.graph, (node_of(lines), FakeInput(context, lambda _time_ms: None).node))
    node.initialize(0)
    assert references(node.batch_inputs(INTERVAL_MS)) == [[INTERVAL_MS]]


@pytest.mark.parametrize("question", ["has_columns", "known_schema", "receiver_ids"])
def test_each_stream_of_nested_unions_is_asked_once(
    lines: DStream[Any], monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    calls = list[Any]()

    def counted(node: Any) -> bool | None:
        calls.append(node)
        return True if question == "has_columns" else None

    source = node_of(lines.map(str))
    monkeypatch.setattr(MapPartitionsDStream, question, property(counted))
    depth, node = 16, source
    for _ in range(depth):
        node = UnionDStream(source.graph, (node, node))
    node.initialize(0)
    _ = getattr(node, question)
    node.batch_inputs(INTERVAL_MS)
    assert len(calls) <= 2 * depth


def test_a_window_of_a_union_begins_before_the_first_batch(lines: DStream[Any]) -> None:
    node = initialized(lines.union(lines).window(4 * INTERVAL_MS / 1000))
    assert references(node.batch_inputs(INTERVAL_MS)) == [[INTERVAL_MS, INTERVAL_MS]]


@pytest.mark.parametrize(
    "persisted",
    [lambda union: union.cache(), lambda union: union.window(4 * INTERVAL_MS / 1000)],
    ids=["cache", "window"],
)
def test_a_persisted_union_of_rows_is_read_from_its_rdds(
    lines: DStream[Any], persisted: Callable[[DStream[Any]], DStream[Any]]
) -> None:
    # Else the functions would run again for each window and output.
    union = lines.map(str).union(lines)
    node = initialized(persisted(union))
    inputs = node.batch_inputs(INTERVAL_MS)
    rdd: Any = node_of(union).get_or_compute(INTERVAL_MS)
    assert inputs == (rdd,)
    assert rdd.done == ["persist " + str(StorageLevel.MEMORY_ONLY)]


def test_a_persisted_union_of_blocks_is_read_from_the_blocks(lines: DStream[Any]) -> None:
    node = initialized(lines.union(lines).cache())
    assert references(node.batch_inputs(INTERVAL_MS)) == [[INTERVAL_MS, INTERVAL_MS]]


@pytest.mark.parametrize(
    "operation",
    [
        lambda lines: lines.map(str),
        lambda lines: lines.map(str).cache(),
        lambda lines: lines.window(4 * INTERVAL_MS / 1000).map(str),
        lambda lines: lines.transform(lambda rdd: rdd),
    ],
    ids=["map", "persisted", "window", "transform"],
)
def test_all_else_is_read_from_the_rdd(lines: DStream[Any], operation: Callable[[DStream[Any]], DStream[Any]]) -> None:
    node = initialized(operation(lines))
    node.batch_inputs(INTERVAL_MS)
    assert node.batch_inputs(3 * INTERVAL_MS) == (node.get_or_compute(3 * INTERVAL_MS),)


def test_a_batch_without_blocks_is_known_to_be_empty(lines: DStream[Any]) -> None:
    node = initialized(lines.map(str))
    for time_ms, number in ((INTERVAL_MS, 1), (2 * INTERVAL_MS, 0)):
        assert known_partitions(node.get_or_compute(time_ms)) == number
    assert known_partitions(FakeRDD([["a"]])) is None


def test_a_source_may_have_columns(context: FakeContext) -> None:
    rdd, columns = FakeRDD([["a"]]), ArrowInput(FakeRDD([[1]]), Reader(), lambda: TEXT)
    batches = {INTERVAL_MS: SourceBatch(rdd, arrow=columns), 2 * INTERVAL_MS: SourceBatch(rdd)}
    nothing = dict.fromkeys(("open", "start", "stop", "clean_up"), lambda *_arguments: None)
    node = PulledInputDStream(context.graph, lambda: SimpleNamespace(compute=batches.__getitem__, **nothing))
    node.initialize(0)
    assert node.batch_inputs(INTERVAL_MS) == (columns,)
    assert node.batch_inputs(2 * INTERVAL_MS) == (rdd,)
    node.clear_metadata(2 * INTERVAL_MS, unpersist=True)
    # No public name for a leak: columns of old batches.
    assert node._columns == {}
