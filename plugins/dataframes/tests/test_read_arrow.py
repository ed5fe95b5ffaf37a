"""From pickled references to record batches of one schema."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from attrs import frozen
from hypothesis import given, strategies as st
from plugins.dataframes.tests.test_spark_types import CONVERTED
from pyspark import cloudpickle
from tests.helpers.engine_parts import FusedChain, Step, arrow_form, functions

from penstock import SchemaError
from penstock_dataframes.read_arrow import ReadColumns, ReadRows, merged
from penstock_dataframes.spark_types import spark_schema

TEXT = pa.schema([("value", pa.string())])
NUMBER = pa.schema([("value", pa.int64())])


@frozen
class Reader:
    """Reads lists of records, encoded as blocks are, a block for each reference."""

    blocks: tuple[Any, ...]

    def batches(self, partitions: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for number in partitions:
            block = self.blocks[number]
            yield from (block if isinstance(block, pa.Table) else arrow_form.encode(block)).to_batches()


def read(blocks: tuple[Any, ...], schema: pa.Schema, **options: Any) -> list[Any]:
    """The rows of blocks that are read in one partition; pickled as Spark does."""
    chosen = {"is_declared": False, "are_values": False, "is_grouped": False, **options}
    return rows(ReadColumns(Reader(blocks), schema, **chosen), list(range(len(blocks))))


def rows(reads: Any, elements: list[Any], index: int = 0) -> list[Any]:
    """The rows of a partition of elements; pickled as Spark does."""
    payloads = [pickle.dumps(element) for element in ([elements] if reads.is_grouped else elements)]
    arguments = pa.RecordBatch.from_arrays(
        [pa.array(payloads), pa.array([index] * len(payloads))], names=["value", "index"]
    )
    batches = list(cloudpickle.loads(cloudpickle.dumps(reads))(iter([arguments] if payloads else [])))
    assert all(batch.schema == reads.schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("is_grouped", [False, True])
def test_blocks_are_read_in_order(is_grouped: bool) -> None:
    assert [row["value"] for row in read((["a", "b"], ["c"]), TEXT, is_grouped=is_grouped)] == ["a", "b", "c"]


@pytest.mark.parametrize("is_grouped", [False, True])
def test_elements_may_be_the_records(is_grouped: bool) -> None:
    assert rows(ReadRows(None, NUMBER, True, is_grouped), [1, 2]) == [{"value": 1}, {"value": 2}]


def test_an_empty_partition_gives_nothing() -> None:
    assert read((), TEXT) == []


def test_a_function_of_partitions_is_called_for_an_empty_one() -> None:
    assert rows(ReadRows(lambda _index, records: [len(list(records))], NUMBER, True, False), []) == [{"value": 0}]


def test_a_block_of_another_schema_is_an_error() -> None:
    with pytest.raises(SchemaError, match=r"it was \(value string\), and there is a block with \(value int64\)"):
        read((["a"], [1]), TEXT)


@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize("block", [["a", "b"], pa.table({"value": ["a", "b"]})], ids=["lines", "table"])
def test_columns_become_no_python_objects(monkeypatch: pytest.MonkeyPatch, block: Any, is_declared: bool) -> None:
    for name in ("penstock_dataframes.read_arrow.records", "penstock_dataframes.read_arrow.to_batches"):
        monkeypatch.setattr(name, lambda *_args, **_kwargs: pytest.fail("records were made"))
    assert read((block,), TEXT, is_declared=is_declared) == [{"value": "a"}, {"value": "b"}]


def test_pickled_records_are_converted_to_a_declared_schema() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert read(([(1, "x"), {"a": 2}],), schema, is_declared=True) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_pickled_records_need_a_declared_schema() -> None:
    with pytest.raises(SchemaError, match="a block of records of several types"):
        read((["a"], ["a", 1]), TEXT)


def test_functions_get_the_elements_and_the_index_of_the_partition() -> None:
    with_index = partial(
        functions.map_partitions_with_index, lambda index, records: [(index, record) for record in records]
    )
    chain = FusedChain((Step("map", str.upper), with_index))
    schema = pa.schema([("index", pa.int32()), ("text", pa.string())])
    result = rows(ReadRows(chain, schema, are_values=False, is_grouped=True), ["a", "b"], index=7)
    assert result == [{"index": 7, "text": "A"}, {"index": 7, "text": "B"}]


def test_a_type_alone_takes_each_record_of_a_block_as_the_value() -> None:
    options = {"is_declared": True, "are_values": True}
    assert read((pa.table({"word": ["a"]}),), TEXT, **options) == [{"value": "a"}]
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    table = pa.table({"a": [1], "b": ["x"]})
    assert read((table,), pa.schema([("value", struct)]), **options) == [{"value": {"a": 1, "b": "x"}}]


@given(st.lists(st.integers(0, 5), max_size=20))
def test_merged_batches_have_the_same_rows(sizes: list[int]) -> None:
    batches = [
        pa.RecordBatch.from_pydict({"value": [f"{n}-{i}" for i in range(size)]}, TEXT) for n, size in enumerate(sizes)
    ]
    merged_batches = list(merged(batches))
    assert [row for batch in merged_batches for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]
    assert len(merged_batches) == bool(sum(sizes))


def test_a_large_batch_is_passed_on_as_it_is() -> None:
    large = pa.RecordBatch.from_pydict({"value": ["x" * 100] * 16_384})
    small = pa.RecordBatch.from_pydict({"value": ["x"]})
    assert [batch.num_rows for batch in merged([large, small, small, large])] == [16_384, 16_386]
    assert next(merged([large])) is large


INSTANT, LOCAL = datetime(2024, 7, 1, 12, tzinfo=UTC), datetime(2024, 7, 1, 12)


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        *((data_type, value) for data_type, _expected, value in CONVERTED if not pa.types.is_dictionary(data_type)),
        (pa.timestamp("us", "Asia/Tokyo"), INSTANT),
        (pa.list_(pa.timestamp("ms", "Asia/Tokyo")), [INSTANT, None]),
        (pa.struct([("at", pa.timestamp("us", "Asia/Tokyo")), ("local", pa.timestamp("s"))]), {"at": INSTANT}),
        (pa.struct([("at", pa.timestamp("us", "Asia/Tokyo")), ("local", pa.timestamp("s"))]), {"local": LOCAL}),
        (pa.map_(pa.timestamp("us", "UTC"), pa.timestamp("us")), [(INSTANT, LOCAL)]),
        (
            pa.list_(pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.binary())])),
            [{"a": Decimal("1.25"), "b": b""}, None],
        ),
        (pa.list_(pa.map_(pa.string(), pa.list_(pa.uint8()))), [[("k", [1, None])], None]),
        (pa.decimal256(30, 2), Decimal("1.25")),
        (pa.null(), None),
    ],
    ids=str,
)
@pytest.mark.usefixtures("_in_tokyo")
def test_rows_of_a_block_convert_to_the_same_columns(data_type: pa.DataType, value: Any) -> None:
    table = pa.table({"a": pa.array([value, None], data_type), "b": [1, 2]})
    schema = spark_schema(table.schema)
    records = list(arrow_form.records(arrow_form.from_columns(table).to_batches()))
    result = rows(ReadRows(None, schema, are_values=False, is_grouped=True), records)
    assert result == read((table,), schema)
    assert [row["a"] is None for row in result] == [value is None, True]


VALUES = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "binary": st.binary(max_size=5),
    "boolean": st.booleans(),
}
ARROW = {
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}


@given(st.data())
def test_typed_and_pickled_blocks_of_the_same_records_read_alike(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(VALUES)))
    records = data.draw(st.lists(VALUES[kind], min_size=1, max_size=10))
    schema = pa.schema([("value", ARROW[kind])])
    pickled = arrow_form.table([arrow_form.column(records, pickled=True)])
    typed = read((records,), spark_schema(arrow_form.encode(records).schema))
    assert [row["value"] for row in typed] == records
    assert read((pickled,), schema, is_declared=True, are_values=True) == typed
