"""Batches that were stored as columns: one column reads as its values, several as Rows."""

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from penstock.blocks import arrow_form


def records(batch: pa.RecordBatch | pa.Table) -> list[Any]:
    return list(arrow_form.records(arrow_form.from_columns(batch).to_batches()))


def test_one_column_reads_as_its_values() -> None:
    assert records(pa.table({"anything": ["a", None, "b"]})) == ["a", None, "b"]
    assert records(pa.record_batch({"n": [1, 2]})) == [1, 2]


def test_several_columns_read_as_rows() -> None:
    rows = records(pa.table({"word": ["a", "b"], "count": [1, None]}))
    assert rows == [Row(word="a", count=1), Row(word="b", count=None)]
    assert [type(row) for row in rows] == [Row, Row]
    assert rows[0].word == rows[0]["word"] == "a"
    assert rows[0].asDict() == {"word": "a", "count": 1}


def test_slice_reads_as_its_records() -> None:
    whole = pa.table({"a": list(range(10)), "b": [str(n) for n in range(10)]})
    assert records(whole.slice(3, 2)) == [Row(a=3, b="3"), Row(a=4, b="4")]
    assert records(whole.select(["a"]).slice(8, 100)) == [8, 9]
    assert records(whole.slice(10)) == []
    assert records(pa.record_batch({"a": list(range(10))}).slice(2, 3)) == [2, 3, 4]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "a", None]).dictionary_encode(),
        pa.array([datetime(2024, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us")),
        pa.array([datetime(2024, 1, 2, 3, 4, 5, 6, UTC)], pa.timestamp("us", "UTC")),
        pa.array([date(2024, 1, 2)]),
        pa.array([timedelta(seconds=5)], pa.duration("us")),
        pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        pa.array([[1, 2], [], None]),
        pa.array([{"a": 1, "b": [{"c": "x"}]}]),
        pa.array([b"\0\xff"], pa.binary()),
        pa.nulls(3),
        pa.array([1.5, float("inf")]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_of_any_type_reads_as_python_values(column: pa.Array) -> None:
    assert records(pa.table({"v": column})) == column.to_pylist()
    assert [row.v for row in records(pa.table({"v": column, "w": column}))] == column.to_pylist()


def test_a_table_of_several_chunks_keeps_their_order() -> None:
    table = pa.concat_tables([pa.table({"a": [1, 2]}), pa.table({"a": [3]}), pa.table({"a": [4, 5]})])
    assert records(table) == [1, 2, 3, 4, 5]


def test_metadata_of_the_schema_is_kept() -> None:
    table = pa.table({"a": [1]}).replace_schema_metadata({"theirs": "x"})
    assert arrow_form.from_columns(table).schema.metadata[b"theirs"] == b"x"


def test_columnar_batch_that_claims_to_be_pickled_is_never_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "loads", lambda _data: pytest.fail("unpickled"))
    for form in ("pickle", "value"):
        table = pa.table({"a": [b"\x80\x05K\x01."]}).replace_schema_metadata({"penstock.form": form})
        assert records(table) == [b"\x80\x05K\x01."]


@pytest.mark.parametrize("nothing", [[1, 2], {"a": [1]}, "text", None, pa.array([1])], ids=lambda v: type(v).__name__)
def test_store_arrow_of_something_else_is_refused(nothing: Any) -> None:
    with pytest.raises(TypeError, match=type(nothing).__name__):
        arrow_form.from_columns(nothing)


def test_a_batch_without_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="without columns"):
        arrow_form.from_columns(pa.table({}))
