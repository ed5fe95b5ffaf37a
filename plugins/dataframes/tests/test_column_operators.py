"""The operators on columns in a graph without Spark: checks of arguments, partial aggregates of windows, and tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row
from tests.helpers.fake_blocks import initialized
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeInputNode, fake_shuffle

from penstock import ConfigurationError, DStream, SchemaError
from penstock.spi import node_of
from penstock_dataframes.column_operators import ForEachTable

WORDS = {1: [["a", "b"], ["a"]], 2: [["b"]], 3: []}


@pytest.fixture
def words(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> DStream[Any]:
    monkeypatch.setattr("penstock.graph.per_batch.shuffled", fake_shuffle)
    node = FakeInputNode(context.graph, lambda time_ms: WORDS[time_ms // INTERVAL_MS])
    stream: DStream[Any] = DStream(node, context)  # type: ignore[arg-type]
    return stream


def collected(stream: DStream[Any]) -> list[list[Any]]:
    node = initialized(stream)
    return [sorted(node.get_or_compute(number * INTERVAL_MS).collect()) for number in WORDS]


def test_functions_of_batches_and_of_records_mix(words: DStream[Any]) -> None:
    upper = words.mapInArrow(lambda batches: (pa.table({"value": pc.utf8_upper(b[0])}) for b in batches))
    assert collected(upper.map(lambda word: word + "!")) == [["A!", "A!", "B!"], ["B!"], []]
    assert collected(upper.count()) == [[3], [1], [0]]


def test_pandas_functions(words: DStream[Any]) -> None:
    assert collected(words.mapInPandas(lambda frames: (frame[frame["value"] == "a"] for frame in frames))) == [
        ["a", "a"],
        [],
        [],
    ]


def test_groups_are_aggregated_over_all_partitions(words: DStream[Any]) -> None:
    assert collected(words.groupBy("value").count()) == [
        [Row(value="a", count=2), Row(value="b", count=1)],
        [Row(value="b", count=1)],
        [],
    ]
    assert collected(words.groupBy().agg({"*": "count"}, last=("value", "max"))) == [
        [Row(**{"count(1)": 3, "last": "b"})],
        [Row(**{"count(1)": 1, "last": "b"})],
        [],
    ]


def test_groups_of_a_window_are_combined_from_those_of_its_batches(words: DStream[Any]) -> None:
    counts = words.groupBy(["value"]).window(2 * INTERVAL_MS / 1000).count()
    assert collected(counts) == [
        [Row(value="a", count=2), Row(value="b", count=1)],
        [Row(value="a", count=2), Row(value="b", count=2)],
        [Row(value="b", count=1)],
    ]
    assert node_of(words).computed == [INTERVAL_MS, 2 * INTERVAL_MS, 3 * INTERVAL_MS]  # type: ignore[attr-defined]


def test_tables_are_collected(words: DStream[Any]) -> None:
    seen: list[Any] = []
    words.foreachTable(seen.append)
    words.foreachTable(lambda time, table: seen.append((time, table.num_rows)))
    outputs = words.context().graph.outputs  # type: ignore[attr-defined]
    for output in outputs:
        initialized_output(output)
    for number in WORDS:
        for output in outputs:
            output.generate_job(number * INTERVAL_MS).run()
    assert [item.to_pydict() for item in seen[::2]] == [{"value": ["a", "b", "a"]}, {"value": ["b"]}, {"value": []}]
    assert [item[1] for item in seen[1::2]] == [3, 1, 0]
    assert all(isinstance(item[0], datetime) for item in seen[1::2])


def test_tables_are_skipped_while_the_columns_are_unknown(words: DStream[Any]) -> None:
    seen: list[Any] = []
    words.foreachTable(seen.append)
    (output,) = words.context().graph.outputs  # type: ignore[attr-defined]
    initialized_output(output)
    output.generate_job(3 * INTERVAL_MS).run()
    assert seen == []
    output.generate_job(1 * INTERVAL_MS).run()
    # A recovered run does not know the columns.
    restored = ForEachTable.__new__(ForEachTable)
    restored.__dict__.update(output.program_state())
    restored.restored()
    restored.generate_job(3 * INTERVAL_MS).run()  # type: ignore[union-attr]
    assert len(seen) == 1


def test_table_with_other_columns_than_before_fails_its_batch(context: FakeContext) -> None:
    batches: dict[int, list[list[Any]]] = {1: [["a"]], 2: [[1]]}
    node = FakeInputNode(context.graph, lambda time_ms: batches[time_ms // INTERVAL_MS])
    DStream(node, context).foreachTable(len)  # type: ignore[arg-type]
    output: Any = context.graph.outputs[0]
    initialized_output(output)
    output.generate_job(INTERVAL_MS).run()
    with pytest.raises(SchemaError, match=r"columns \(value int64\) after \(value string\)"):
        output.generate_job(2 * INTERVAL_MS).run()


def initialized_output(output: Any) -> None:
    output.initialize(0)
    output.remember(0)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda s: s.mapInArrow(None), TypeError, "mapInArrow takes a function, not None"),
        (lambda s: s.mapInPandas("f"), TypeError, "mapInPandas takes a function"),
        (lambda s: s.foreachTable(1), TypeError, "cannot be called"),
        (lambda s: s.foreachTable(lambda _a, _b, _c: None), AssertionError, "one or two arguments"),
        (lambda s: s.groupBy(1), TypeError, r"groupBy takes names of columns, not 1 \(int\)"),
        (lambda s: s.groupBy("b", "b"), ConfigurationError, "would be named 'b'"),
        (lambda s: s.groupBy("a").agg(), ValueError, "at least one aggregate"),
        (lambda s: s.groupBy("a").agg("sum"), TypeError, "Expressions of Spark are for DataFrames"),
        (lambda s: s.groupBy("a").agg(n="sum"), TypeError, "n is 'sum'"),
        (lambda s: s.groupBy("a").agg(a=("b", "sum")), ConfigurationError, "would be named 'a'"),
        (lambda s: s.groupBy("a").agg({"b": "sum"}, **{"sum(b)": ("b", "sum")}), ConfigurationError, "named 'sum"),
        (lambda s: s.groupBy("a").window(0.15).count(), ValueError, "must be multiple"),
    ],
)
def test_invalid_argument_is_refused(words: DStream[Any], use: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use(words)


def test_pandas_function_needs_pandas(words: DStream[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ConfigurationError("no pandas")

    monkeypatch.setattr("penstock_dataframes.column_operators.require_pandas", missing)
    words.mapInArrow(lambda batches: batches)
    with pytest.raises(ConfigurationError, match="no pandas"):
        words.mapInPandas(lambda frames: frames)
