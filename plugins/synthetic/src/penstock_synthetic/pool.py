"""A seeded pool of records that is read in rounds."""

from __future__ import annotations

import itertools
import random
import string
from array import array
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

Shape = Literal["lines", "numbers", "pairs"]
SHAPES: tuple[Shape, ...] = ("lines", "numbers", "pairs")

#: Records in a pool: enough for variety, few enough to generate quickly.
POOL_RECORDS = 8192
_VOCABULARY = 2000
_LEAST_LINE_LENGTH = 92
_LARGEST_NUMBER = 999_999


class Pool:
    """Records of one shape, repeated endlessly.

    Args:
        shape: ``lines``: words with blanks between, 92 to 101 characters; ``numbers``: ints from 0 to 999,999;
            ``pairs``: tuples of a word and such an int. The n-th most frequent of 2,000 words is n times as rare as the
            first.
        seed: equal seeds produce equal records.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        rng = random.Random(seed)
        words = _words(rng)
        #: The whole pool, in order.
        self.records: list[Any]
        match shape:
            case "lines":
                self.records = [_line(words) for _ in range(POOL_RECORDS)]
            case "numbers":
                self.records = [rng.randint(0, _LARGEST_NUMBER) for _ in range(POOL_RECORDS)]
            case "pairs":
                self.records = [(next(words), rng.randint(0, _LARGEST_NUMBER)) for _ in range(POOL_RECORDS)]
        self._column = _column(self.records, shape)

    def slice(self, start: int, stop: int) -> list[Any]:
        """The records from number ``start`` to number ``stop``, exclusive."""
        return [record for piece in _rounds(start, stop) for record in self.records[piece]]

    def table(self, start: int, stop: int) -> pa.Table | None:
        """The same records as a table with the column ``value``; ``None`` if the shape has no columnar form."""
        if self._column is None:
            return None
        pieces = [self._column[piece] for piece in _rounds(start, stop)]
        return pa.table({"value": pa.chunked_array(pieces, self._column.type)})


def _column(records: list[Any], shape: Shape) -> Any:
    """Convert the records to a pyarrow Array from buffers, because pa.array imports pandas if it is installed."""
    match shape:
        case "lines":
            offsets = array("i", itertools.accumulate(map(len, records), initial=0))
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer("".join(records).encode("ascii"))]
            return pa.Array.from_buffers(pa.string(), len(records), buffers)
        case "numbers":
            return pa.Array.from_buffers(pa.int64(), len(records), [None, pa.py_buffer(array("q", records))])
        case "pairs":
            # A column of pairs would be read as Rows, not as tuples.
            return None


def _rounds(start: int, stop: int) -> Iterator[slice]:
    """The slices of the pool that cover a range of numbers."""
    while start < stop:
        first = start % POOL_RECORDS
        last = min(first + stop - start, POOL_RECORDS)
        yield slice(first, last)
        start += last - first


def _words(rng: random.Random) -> Iterator[str]:
    vocabulary: dict[str, None] = {}
    while len(vocabulary) < _VOCABULARY:
        vocabulary["".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9)))] = None
    words = list(vocabulary)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    while True:
        yield from rng.choices(words, cum_weights=weights, k=1024)


def _line(words: Iterator[str]) -> str:
    line = next(words)
    while len(line) < _LEAST_LINE_LENGTH:
        line = f"{line} {next(words)}"
    return line
