"""The functions that tasks use to read the batch of a DataFrame: from pickled elements to record batches for Spark.

Spark's ``mapInArrow`` runs them in the Python worker. Columns go from the memory-mapped block to Spark without becoming
Python objects, unless the program's own functions run in between.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import frozen

from penstock import SchemaError
from penstock.spi import BlockRecords, is_pickled, records
from penstock_dataframes.arrow_rows import ROWS_PER_BATCH, to_batches
from penstock_dataframes.column_batches import columns_of
from penstock_dataframes.conform import conform, describe_schema
from penstock_dataframes.spark_types import as_value, require_same

if TYPE_CHECKING:
    from penstock import ArrowReader

# Smaller record batches are merged, because each costs Spark about 0.1 ms. Larger ones are passed on unchanged.
_MERGED_ROWS, _MERGED_BYTES = ROWS_PER_BATCH // 2, 1 << 20


@frozen
class ReadColumns:
    """The function for ``mapInArrow`` if the records are stored as columns.

    Attributes:
        reader: reads the blocks or files that the elements refer to.
        schema: the schema of the yielded record batches, with types that Spark reads.
        is_declared: whether the program declared the schema; all input is then converted to it.
        are_values: whether each record is the value of the only column.
        is_grouped: whether each element of the input column is a pickled list of references.
    """

    reader: ArrowReader
    schema: pa.Schema
    is_declared: bool
    are_values: bool
    is_grouped: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read a partition."""
        stored = self.reader.batches(_elements(batches, self.is_grouped))
        return merged(itertools.chain.from_iterable(map(self._conformed, stored)))

    def _conformed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if is_pickled(batch.schema):
            if not self.is_declared:
                raise SchemaError(
                    f"the schema of a stream's records has changed: it was ({describe_schema(self.schema)}), and there "
                    "is a block of records of several types, or of one that Arrow lacks. Declare a schema to which all "
                    "of them are converted: toDF('name type, ...')"
                )
            return to_batches(records([batch]), self.schema, are_values=self.are_values)
        if self.are_values:
            batch = as_value(batch, self.schema.names[0])
        if not self.is_declared:
            require_same(batch.schema, self.schema)
        return iter((conform(batch, self.schema),))


@frozen
class ReadRows:
    """The function for ``mapInArrow`` if the records are Python objects.

    Attributes:
        function: the partition function from elements to records, called with the partition's index, which is the
            second column of the input; ``None`` if the elements are the records.
        schema: the schema of the yielded record batches, with types that Spark reads.
        are_values: whether each record is the value of the only column.
        is_grouped: whether each element of the first column is a pickled list of elements.
    """

    function: Callable[[int, Iterable[Any]], Iterable[Any]] | None
    schema: pa.Schema
    are_values: bool
    is_grouped: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert a partition."""
        if self.function is None:
            return to_batches(_elements(batches, self.is_grouped), self.schema, are_values=self.are_values)
        first = list(itertools.islice(batches, 1))
        elements = _elements(itertools.chain(first, batches), self.is_grouped)
        results = self.function(_index_of(first), elements)
        if isinstance(results, BlockRecords) and not self.are_values:
            return merged(conform(batch, self.schema) for batch in columns_of(results))
        return to_batches(results, self.schema, are_values=self.are_values)


@frozen
class ReadNothing:
    """The function for ``mapInArrow`` that reads no block: its task only starts a Python worker.

    Attributes:
        schema: the schema of the single row of nulls that it yields.
    """

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the elements."""
        for _ in batches:
            pass
        # Not built from Python objects, because PyArrow would import pandas for these.
        yield pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in self.schema], schema=self.schema)


def _elements(batches: Iterable[pa.RecordBatch], is_grouped: bool) -> Iterator[Any]:
    for batch in batches:
        for element in batch.column(0):
            loaded = pickle.loads(element.as_buffer())
            if is_grouped:
                yield from loaded
            else:
                yield loaded


def _index_of(first: list[pa.RecordBatch]) -> int:
    """The index of the partition in its RDD; for a partition without elements, that of the task."""
    if first:
        return int(first[0].column(1)[0].as_py())
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge consecutive small record batches of one schema; leave out empty ones."""
    waiting: list[pa.RecordBatch] = []
    rows = num_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, num_bytes = rows + batch.num_rows, num_bytes + batch.nbytes
        if rows >= _MERGED_ROWS or num_bytes >= _MERGED_BYTES:
            yield _merge(waiting)
            waiting, rows, num_bytes = [], 0, 0
    if waiting:
        yield _merge(waiting)


def _merge(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
