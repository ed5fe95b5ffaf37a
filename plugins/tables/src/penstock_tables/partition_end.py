"""Ends of partitions, by which a task that commits knows that it has read all of its input.

A Python worker of Spark takes a connection that breaks for the end of the data. A task whose executor is lost, or whose
job has failed meanwhile, would commit the records that it has read so far. So the partitions are given an end before
they pass through the executor's JVM, and the task commits after it has read the ends of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

#: The column of ``encoded``.
ENCODED = "batch binary"
_COLUMN = ENCODED.split()[0]
# No Arrow batch is encoded so.
_NO_BATCH = b""


class TruncatedInputError(RuntimeError):
    """A task has lost its executor before it had read all of its input."""


class PartitionEnd:
    """The end of a partition of records."""


def with_end(records: Iterable[Any]) -> Iterator[Any]:
    """The records of a partition and its end: a function for ``RDD.mapPartitions``."""
    yield from records
    yield PartitionEnd()


def until_ends(records: Iterable[Any], partitions: int) -> Iterator[Any]:
    """The records of partitions with ends.

    Raises:
        TruncatedInputError: one of the ends is missing.
    """
    missing = partitions
    for record in records:
        if isinstance(record, PartitionEnd):
            missing -= 1
        else:
            yield record
    _check(missing)


def encoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a partition, and its end, as bytes: a function for ``DataFrame.mapInArrow``."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield _as_row(sink.getvalue().to_pybytes())
    yield _as_row(_NO_BATCH)


def decoded(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of the one partition that ``encoded`` has encoded.

    Raises:
        TruncatedInputError: its end is missing.
    """
    missing = 1
    for row in rows:
        for value in row.column(_COLUMN):
            if value.as_py() == _NO_BATCH:
                missing -= 1
            else:
                yield from pa.ipc.open_stream(value.as_buffer())
    _check(missing)


def _as_row(data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({_COLUMN: pa.array([data], pa.binary())})


def _check(missing: int) -> None:
    if missing:
        raise TruncatedInputError(
            f"the input ended before the ends of {missing} of its partitions: the executor or the job of this task has "
            "ended, and the task writes nothing"
        )
