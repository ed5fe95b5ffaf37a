"""``sized_tables``: encodes the records of a ``store_all`` as tables of bounded size."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.blocks import arrow_form
from penstock.blocks.arrow_form import Column

if TYPE_CHECKING:
    import pyarrow as pa

# Maximum number of records that are encoded together.
_PIECE = 4096
# A table of large records consists of at least this many pieces: a piece is in memory twice while it is encoded.
_PIECES = 8
# A piece may have this many times the records of the one before, so that the first ones are small.
_GROWTH = 4
# An iterator may create its records as they are read. So a piece of it ends early if the last of each _LOOK records is
# _LARGER times as large as those before. A sequence is in memory already.
_LOOK, _LARGER = 256, 8


def sized_tables(
    records: Iterable[Any], max_records: Callable[[], int], max_bytes: int, *, marks_last: bool = False
) -> Iterator[tuple[pa.Table, int, bool]]:
    """Encode an iterable as tables of bounded size, with the number of records, and whether the table is the last.

    ``max_records`` is called before each table. A single record may exceed ``max_bytes``; records of very different
    sizes may exceed it by those taken between two checks. Only ``marks_last`` reads one record ahead, to know the last.
    """
    rest = source = iter(records)
    piece_records, record_bytes = 1, max_bytes
    columns: list[Column] = []
    count, num_bytes, most = 0, 0, max_records()
    look = _PIECE if isinstance(records, Sequence) else _LOOK
    while piece := _take(source, min(piece_records, most - count), look, record_bytes):
        columns = _with(columns, piece)
        added = columns[-1].values.nbytes - (num_bytes if len(columns) == 1 else 0)
        count, num_bytes = count + len(piece), num_bytes + added
        record_bytes = max(added // len(piece), 1)
        if count >= most or num_bytes + record_bytes > max_bytes:
            following = list(itertools.islice(source, 1)) if marks_last else []
            yield arrow_form.table(columns), count, marks_last and not following
            source = itertools.chain(following, rest)
            columns, count, num_bytes, most = [], 0, 0, max_records()
        left_bytes = min(max_bytes - num_bytes, max_bytes // _PIECES)
        piece_records = max(min(piece_records * _GROWTH, _PIECE, left_bytes // record_bytes), 1)
    if columns:
        yield arrow_form.table(columns), count, marks_last


def _take(source: Iterator[Any], count: int, look: int, record_bytes: int) -> list[Any]:
    """Take records; fewer if they are suddenly large."""
    piece = list(itertools.islice(source, min(count, look)))
    while len(piece) < count and piece and sys.getsizeof(piece[-1]) < record_bytes * _LARGER + 1000:
        before = len(piece)
        piece += itertools.islice(source, min(count - before, look))
        if len(piece) == before:
            break
    return piece


def _with(columns: list[Column], piece: list[Any]) -> list[Column]:
    """Append records to columns of one form."""
    column = arrow_form.column(piece, pickled=bool(columns) and columns[0].is_pickled)
    if not columns or column.has_form_of(columns[0]):
        columns.append(column)
        return columns
    # The records turn out to be of mixed types: pickle them all.
    before = arrow_form.records(arrow_form.table(columns).to_batches())
    return [arrow_form.column([*before, *piece], pickled=True)]
