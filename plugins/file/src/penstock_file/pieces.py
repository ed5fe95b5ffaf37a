"""File pieces: which bytes of which file a task reads.

Owns the splitting of large files and the packing of small ones. Pure: opens nothing. Runs on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from attrs import frozen

from penstock_file.file_version import FileVersion

#: A partition reads no more, unless one file that cannot be split is larger.
MAX_PARTITION_BYTES = 64 << 20
# Less is not worth a task of its own.
_MIN_PARTITION_BYTES = 4 << 20
# To open a file costs as much as to read so many bytes.
_OPEN_BYTES = 1 << 20
# A last piece this much longer than the others is better than one more.
_SLACK = 1.1


@frozen
class FilePiece:
    """A part of a version of a file.

    Attributes:
        number: of the piece in its batch.
        path: as the file system names it.
        start: first byte.
        stop: the byte behind the last one; a line belongs to the piece in which it begins.
        size: of the version; what lies behind is not its.
    """

    number: int
    path: str
    start: int
    stop: int
    size: int


def codec_of(path: str) -> str | None:
    """The compression that a path's ending says, ``None`` for none."""
    try:
        name: str = pa.Codec.detect(path).name
    except (TypeError, ValueError):
        return None  # it answers so to an ending that it does not know
    return name


def partitions(versions: Sequence[FileVersion], unit: int | None, parallelism: int) -> list[tuple[FilePiece, ...]]:
    """Spread files over partitions, in order.

    Args:
        versions: the files.
        unit: a file may be split at multiples of so many bytes; ``None``: nowhere.
        parallelism: how many tasks can run at a time; to occupy them files are split further.
    """
    total = sum(version.size + _OPEN_BYTES for version in versions)
    most = min(MAX_PARTITION_BYTES, max(_MIN_PARTITION_BYTES, -(-total // max(parallelism, 1))))
    made: list[tuple[FilePiece, ...]] = []
    current: list[FilePiece] = []
    filled = number = 0
    for version in versions:
        for start, stop in _ranges(version, unit, most):
            cost = stop - start + _OPEN_BYTES
            if current and filled + cost > most:
                made.append(tuple(current))
                current, filled = [], 0
            current.append(FilePiece(number, version.path, start, stop, version.size))
            filled += cost
            number += 1
    if current:
        made.append(tuple(current))
    return made


def _ranges(version: FileVersion, unit: int | None, most: int) -> Iterator[tuple[int, int]]:
    size = version.size
    # A file of another size is no whole number of units: whoever reads it must see that, once.
    if unit is None or size <= most * _SLACK or size % unit or codec_of(version.path) is not None:
        yield 0, size
        return
    step = max(most - most % unit, unit)
    start = 0
    while size - start > step * _SLACK:
        yield start, start + step
        start += step
    yield start, size
