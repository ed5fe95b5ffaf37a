"""Record batches of a partition's records. Runs in the tasks of a batch.

Blocks of columns are passed on as they are mapped into memory. Only records that are Python objects are converted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock import SchemaError
from penstock.spi import BlockRecords, encode, is_pickled, records, shown
from penstock_dataframes.arrow_rows import ROWS_PER_BATCH
from penstock_dataframes.conform import describe_schema


def columns_of(partition: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """The record batches of a partition's records.

    Values of one type become the column ``value``, Rows and dictionaries a column per name, and tuples the columns
    ``_1``, ``_2`` and so on.

    Raises:
        SchemaError: a record has no columns.
    """
    if not isinstance(partition, BlockRecords):
        yield from _converted(partition)
        return
    for batch in partition.batches:
        if is_pickled(batch.schema):
            yield from _converted(records([batch]))
        else:
            yield batch


def _converted(partition: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    source = iter(partition)
    while run := list(itertools.islice(source, ROWS_PER_BATCH)):
        rows = [_named(record) for record in run]
        if all(isinstance(row, dict) for row in rows):
            yield _from_dictionaries(rows)
            continue
        table = encode(run)
        if is_pickled(table.schema):
            kinds = sorted({type(record).__name__ for record in run})
            raise SchemaError(
                f"records of type {' and '.join(kinds)}, such as {shown(run[0])}, are not columns: with map, turn all "
                "of them into tuples, Rows or dictionaries, or into values of one of the types str, bytes, int, float "
                "and bool"
            )
        yield from table.to_batches()


def _named(record: Any) -> Any:
    """The values of a record by column; a record without columns itself."""
    if not isinstance(record, tuple):
        return record
    # A Row without names, as `Row(1, 2)`, has no fields.
    names = getattr(record, "__fields__", None) or [f"_{number}" for number in range(1, len(record) + 1)]
    return dict(zip(names, record, strict=True))


def _from_dictionaries(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    if not names:
        raise SchemaError(f"records such as {shown(rows[0])} do not become columns: they are empty")
    try:
        return pa.RecordBatch.from_pydict({name: [row.get(name) for row in rows] for name in names})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"records such as {shown(rows[0])} do not become columns: {error}") from None


def require_equal(schema: pa.Schema, first: pa.Schema, who: str) -> None:
    """Check that two schemas have the same names and types in the same order.

    Raises:
        SchemaError: they have not; names both.
    """
    if schema.names != first.names or schema.types != first.types:
        raise SchemaError(
            f"{who} columns ({describe_schema(schema)}) after ({describe_schema(first)}): all record batches must have "
            "the same columns and types"
        )


def serialized(_index: int, records: Iterable[Any]) -> Iterator[bytes]:
    """Partition function from records to at most one Arrow stream, which contains only the rows of its batches."""
    batches = columns_of(records)
    first = next(batches, None)
    if first is None:
        return
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, first.schema) as stream:
        for batch in itertools.chain((first,), batches):
            require_equal(batch.schema, first.schema, "a partition has")
            stream.write_batch(batch.cast(first.schema))
    yield sink.getvalue().to_pybytes()
