"""Chunks of what ``store_all`` is given: so much of an iterable as may be in memory at once.

Owns the measuring: records are put into their Arrow form a few at a time, which says how large they are, nested ones
included, and costs nothing more. Takes no more from the iterable than the next chunk needs. Runs on the thread that
stores.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.blocks import arrow_form
from penstock.blocks.arrow_form import Column

if TYPE_CHECKING:
    import pyarrow as pa

# Records that are put into their form together, at most.
_PIECE = 4096
# Of large records so many pieces make a chunk: a piece is in memory twice.
_PIECES = 8
# So many times more than the last time, until nothing surprises any more.
_GROWTH = 4
# How often, in records that are made on the way, it is looked whether they are suddenly that much larger than those
# before; a sequence is in memory, however large its records are.
_LOOK, _LARGER = 256, 8


def sized_tables(records: Iterable[Any], max_records: Callable[[], int], max_bytes: int) -> Iterator[tuple[pa.Table, int]]:
    """Cut an iterable into blocks' tables.

    Args:
        records: any number.
        max_records: of a chunk; asked before each.
        max_bytes: of a chunk, unless it is a single record. Records that differ in size can make it more: by as many
            large ones as are taken between two looks at them.

    Returns:
        Each table, and how many records it holds.
    """
    source, piece_records, each_bytes = iter(records), 1, max_bytes
    columns: list[Column] = []
    count, num_bytes, most = 0, 0, max_records()
    look = _PIECE if isinstance(records, Sequence) else _LOOK
    while piece := _take(source, min(piece_records, most - count), look, each_bytes):
        columns = _with(columns, piece)
        added = columns[-1].num_bytes - (num_bytes if len(columns) == 1 else 0)
        count, num_bytes = count + len(piece), num_bytes + added
        each_bytes = max(added // len(piece), 1)
        if count >= most or num_bytes + each_bytes > max_bytes:
            yield arrow_form.table(columns), count
            columns, count, num_bytes, most = [], 0, 0, max_records()
        left_bytes = min(max_bytes - num_bytes, max_bytes // _PIECES)
        piece_records = max(min(piece_records * _GROWTH, _PIECE, left_bytes // each_bytes), 1)
    if columns:
        yield arrow_form.table(columns), count


def _take(source: Iterator[Any], count: int, look: int, each_bytes: int) -> list[Any]:
    """Take records; fewer when they turn out to be large."""
    piece = list(itertools.islice(source, min(count, look)))
    while len(piece) < count and piece and sys.getsizeof(piece[-1]) < each_bytes * _LARGER + 1000:
        before = len(piece)
        piece += itertools.islice(source, min(count - before, look))
        if len(piece) == before:
            break
    return piece


def _with(columns: list[Column], piece: list[Any]) -> list[Column]:
    """Add records to columns of one form."""
    column = arrow_form.column(piece, pickled=bool(columns) and columns[0].is_pickled)
    if not columns or column.has_form_of(columns[0]):
        columns.append(column)
        return columns
    # They turn out to be mixed.
    before = arrow_form.records(arrow_form.table(columns).to_batches())
    return [arrow_form.column([*before, *piece], pickled=True)]
