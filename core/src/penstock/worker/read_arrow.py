"""``ReadArrow``: what tasks read a DataFrame's batch with, from references to record batches that Spark takes over.

Spark's ``mapInArrow`` runs it in the Python worker. Columns go from the memory-mapped block to Spark without becoming
Python objects, unless the program's own functions run in between.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import frozen

from penstock.blocks import arrow_form
from penstock.blocks.arrow_form import ROWS_PER_BATCH
from penstock.errors import SchemaError
from penstock.worker.arrow_rows import to_batches
from penstock.worker.arrow_types import conform, describe
from penstock.worker.fused import FusedChain

if TYPE_CHECKING:
    from penstock.plugins.specs import ArrowReader

# Smaller record batches are merged: each costs Spark some 0.1 ms. Larger ones are passed on as they are.
_MERGED_ROWS, _MERGED_BYTES = ROWS_PER_BATCH // 2, 1 << 20


@frozen
class ReadArrow:
    """The function given to ``mapInArrow``: its input has the column of pickled references, then the partition's index.

    Attributes:
        reader: reads the references.
        schema: of the record batches that it yields; types that Spark reads.
        is_declared: whether the program declared the schema, to which all input is converted.
        are_values: each record is the value of the only column.
        is_grouped: each element of the input column is a pickled list of references.
        chain: row functions to apply in between.
    """

    reader: ArrowReader
    schema: pa.Schema
    is_declared: bool
    are_values: bool
    is_grouped: bool
    chain: FusedChain | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read a partition."""
        first = next(batches, None)
        if first is None:
            return
        found = self.reader.batches(self._references(itertools.chain((first,), batches)))
        if self.chain is not None:
            rows = self.chain(first.column(1)[0].as_py(), arrow_form.records(found))
            yield from to_batches(rows, self.schema, are_values=self.are_values)
        else:
            yield from merged(each for batch in found for each in self._conformed(batch))

    def _references(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        for batch in batches:
            for element in batch.column(0):
                loaded = pickle.loads(element.as_buffer())
                if self.is_grouped:
                    yield from loaded
                else:
                    yield loaded

    def _conformed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if arrow_form.is_pickled(batch.schema):
            if not self.is_declared:
                raise SchemaError(
                    f"the schema of a stream's records has changed: it was ({describe(self.schema)}), and there is a "
                    "block of records of several types, or of one that Arrow lacks. Declare a schema to which all of "
                    "them are converted: toDF('name type, ...')"
                )
            return to_batches(arrow_form.records([batch]), self.schema, are_values=self.are_values)
        return iter((conform(batch, self.schema, is_declared=self.is_declared),))


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
