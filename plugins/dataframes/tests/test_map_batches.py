"""``mapInArrow`` and ``mapInPandas`` in a task: what the function gets, and what it may return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from penstock import SchemaError
from penstock.spi import BlockRecords, ResultTypeError, encode
from penstock_dataframes.column_batches import columns_of, serialized
from penstock_dataframes.map_batches import MapBatches, PandasFunction

TEXT = pa.record_batch({"value": ["a", "b"]})
# The stubs of PySpark say that only names are without keywords.
UNNAMED: Any = ("a", 1)
NUMBERS = pa.record_batch({"value": [1, 2]})


def results(function: Any, records: Iterable[Any] = ()) -> list[Any]:
    return list(MapBatches(function, "mapInArrow")(0, records))


class Stream:
    """Has Arrow's PyCapsule interface for streams, as a DataFrame of Polars has."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Array:
    """Has Arrow's PyCapsule interface for arrays."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


def test_function_gets_the_stored_columns_without_a_copy() -> None:
    seen = []

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.append(batch)
            yield batch

    assert results(note, BlockRecords(iter([TEXT]))) == ["a", "b"]
    addresses = [[buffer and buffer.address for buffer in batch.column(0).buffers()] for batch in (*seen, TEXT)]
    assert addresses[0] == addresses[1]


def test_results_of_a_function_are_the_input_of_the_next_without_python_objects() -> None:
    first = MapBatches(lambda _batches: [TEXT], "mapInArrow")(0, ())
    (batch,) = MapBatches(lambda batches: batches, "mapInArrow")(0, first).batches
    assert batch is TEXT


@pytest.mark.parametrize(
    "result", [TEXT, pa.Table.from_batches([TEXT]), Stream(pa.table({"value": ["a", "b"]})), Array(TEXT)]
)
def test_every_form_of_arrow_data_is_a_result(result: Any) -> None:
    assert results(lambda _batches: [result]) == ["a", "b"]


def test_several_columns_are_rows() -> None:
    assert results(lambda _batches: [pa.table({"word": ["a"], "n": [1]})]) == [Row(word="a", n=1)]


def test_a_partition_without_records_calls_the_function_without_batches() -> None:
    assert results(lambda batches: [pa.table({"n": [len(list(batches))]})]) == [0]


@pytest.mark.parametrize("result", [None, 3, TEXT, pa.table({"n": [1]}), Array(TEXT)])
def test_result_that_is_no_iterable_is_refused(result: Any) -> None:
    with pytest.raises(ResultTypeError, match=r"given to mapInArrow returned .* yield each result"):
        results(lambda _batches: result)


@pytest.mark.parametrize("item", ["text", {"n": [1]}, [TEXT]])
def test_item_that_is_no_arrow_data_is_refused(item: Any) -> None:
    with pytest.raises(ResultTypeError, match=r"(?s)given to mapInArrow yielded .*not a record batch"):
        results(lambda _batches: [item])


def test_record_batch_without_columns_is_refused() -> None:
    with pytest.raises(SchemaError, match="without columns"):
        results(lambda _batches: [pa.table({})])


def test_schema_that_changes_is_refused_naming_both() -> None:
    with pytest.raises(SchemaError, match=r"columns \(value int64\) after \(value string\)"):
        results(lambda _batches: [TEXT, NUMBERS])


def test_stop_iteration_of_the_function_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        results(lambda _batches: next(iter([])))


@pytest.mark.parametrize(
    ("records", "columns"),
    [
        (["a", "b"], {"value": ["a", "b"]}),
        ([1, 2], {"value": [1, 2]}),
        ([Row(word="a", n=1), Row(word="b", n=None)], {"word": ["a", "b"], "n": [1, None]}),
        ([("a", 1), ("b", 2)], {"_1": ["a", "b"], "_2": [1, 2]}),
        ([Row(*UNNAMED)], {"_1": ["a"], "_2": [1]}),
        ([{"n": 1}, {"m": 2}], {"n": [1, None], "m": [None, 2]}),
    ],
)
def test_python_objects_become_columns(records: list[Any], columns: dict[str, list[Any]]) -> None:
    assert pa.Table.from_batches(columns_of(iter(records))).to_pydict() == columns


@pytest.mark.parametrize(
    ("records", "kinds"),
    [([("a", 1), "a"], "str and tuple"), ([1, "a"], "int and str"), ([None], "NoneType"), ([{1}], "set")],
)
def test_records_without_columns_are_refused_by_type(records: list[Any], kinds: str) -> None:
    with pytest.raises(SchemaError, match=f"records of type {kinds}, such as .* with map, turn"):
        list(columns_of(iter(records)))
    with pytest.raises(SchemaError, match=f"records of type {kinds}"):
        list(columns_of(BlockRecords(iter(encode(records).to_batches()))))


@pytest.mark.parametrize("records", [[{"n": 1}, {"n": "a"}], [("a", 1), (1, 1)], [()], [{}], [{"n": 1 << 80}]])
def test_values_that_do_not_become_columns_are_refused(records: list[Any]) -> None:
    with pytest.raises(SchemaError, match="do not become columns"):
        list(columns_of(records))


def test_pandas_function_gets_and_returns_dataframes() -> None:
    def lengths(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            yield frame.assign(n=frame["value"].str.len())[frame["value"] != "b"]

    assert results(PandasFunction(lengths), ["a", "b", "ccc"]) == [Row(value="a", n=1), Row(value="ccc", n=3)]


def test_pandas_function_must_yield_dataframes() -> None:
    results: list[tuple[Any, str]] = [
        (TEXT.to_pandas(), "returned DataFrame"),
        (None, "returned NoneType"),
        ([TEXT], "yielded"),
    ]
    for result, message in results:
        function = PandasFunction(partial(_returned, result))
        with pytest.raises(ResultTypeError, match=f"given to mapInPandas {message}"):
            list(MapBatches(function, "mapInPandas")(0, ()))


def _returned(result: Any, _frames: object) -> Any:
    return result


def test_a_partition_is_one_arrow_stream_of_its_rows() -> None:
    (stream,) = serialized(0, BlockRecords(iter([TEXT.slice(1), TEXT.slice(0, 0)])))
    assert pa.ipc.open_stream(stream).read_all().to_pydict() == {"value": ["b"]}
    assert list(serialized(0, ())) == []
    with pytest.raises(SchemaError, match="a partition has columns"):
        list(serialized(0, BlockRecords(iter([TEXT, NUMBERS]))))
