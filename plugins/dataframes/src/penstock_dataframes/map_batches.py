"""``MapBatches``: passes record batches to a function of the program, and checks its results. Runs in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock import SchemaError
from penstock.spi import BlockRecords, ResultTypeError, shown
from penstock_dataframes.column_batches import columns_of, require_equal

BatchFunction = Callable[[Iterator[pa.RecordBatch]], object]


@frozen
class MapBatches:
    """Partition function that passes record batches to a function of the program.

    Attributes:
        function: gets an iterator of record batches, and returns an iterable of results.
        operator: its operator, for messages.
    """

    function: BatchFunction
    operator: str

    def __call__(self, _index: int, records: Iterable[Any]) -> BlockRecords:
        """Call the function when the results are read."""
        return BlockRecords(self._batches(records))

    def _batches(self, records: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        yield from batches_of(self.function(columns_of(records)), self.operator)


@frozen
class PandasFunction:
    """Calls a function of pandas DataFrames with record batches.

    Attributes:
        function: gets an iterator of DataFrames, and returns an iterable of DataFrames.
    """

    function: Callable[[Iterator[Any]], Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert record batches, and the DataFrames that the function yields."""
        import pandas

        results = self.function(batch.to_pandas() for batch in batches)
        if not isinstance(results, Iterable) or isinstance(results, pandas.DataFrame):
            raise ResultTypeError(
                f"the function given to mapInPandas returned {type(results).__name__}, not an iterable of pandas "
                "DataFrames: yield each result, or return a list"
            )
        for result in results:
            if not isinstance(result, pandas.DataFrame):
                raise ResultTypeError(
                    f"the function given to mapInPandas yielded {shown(result)} ({type(result).__name__}), not a "
                    "pandas DataFrame"
                )
            yield pa.RecordBatch.from_pandas(result, preserve_index=False).replace_schema_metadata(None)


def batches_of(results: object, operator: str) -> Iterator[pa.RecordBatch]:
    """The record batches in what the function of an operator returned. Reads one result at a time.

    Raises:
        ResultTypeError: it is not an iterable of Arrow data.
        SchemaError: a result has other columns than the first one.
    """
    if not isinstance(results, Iterable) or isinstance(results, pa.RecordBatch | pa.Table) or _is_arrow(results):
        raise ResultTypeError(
            f"the function given to {operator} returned {type(results).__name__}, not an iterable of record batches: "
            "yield each result, or return a list"
        )
    first: pa.Schema | None = None
    for result in results:
        for batch in _batches(result, operator):
            first = batch.schema if first is None else first
            if not batch.schema.names:
                raise SchemaError(f"the function given to {operator} yielded a record batch without columns")
            require_equal(batch.schema, first, f"the function given to {operator} yielded")
            yield batch


def _batches(result: Any, operator: str) -> Iterable[pa.RecordBatch]:
    if isinstance(result, pa.RecordBatch):
        return (result,)
    if isinstance(result, pa.Table):
        return result.to_batches() or (pa.RecordBatch.from_pylist([], schema=result.schema),)
    if hasattr(result, "__arrow_c_stream__"):
        batches: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(result)
        return batches
    if hasattr(result, "__arrow_c_array__"):
        return (pa.record_batch(result),)
    raise ResultTypeError(
        f"the function given to {operator} yielded {shown(result)} ({type(result).__name__}), not a record batch, a "
        "table or an object with Arrow's PyCapsule interface"
    )


def _is_arrow(result: object) -> bool:
    return hasattr(result, "__arrow_c_stream__") or hasattr(result, "__arrow_c_array__")
