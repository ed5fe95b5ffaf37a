"""File pieces: the parts of files that tasks read. Splits large files and packs small ones. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from attrs import frozen

from penstock.spi import Packable, pack
from penstock_file.file_version import FileVersion

#: Maximum size of a partition, unless a file that cannot be split is larger.
MAX_PARTITION_BYTES = 64 << 20
# A smaller partition is not worth a task.
_MIN_PARTITION_BYTES = 4 << 20
# Opening a file costs as much as reading this many bytes.
_OPEN_BYTES = 1 << 20
# The last piece may be longer by this factor, to avoid one more piece.
_SLACK = 1.1


@frozen
class FilePiece:
    """A part of a version of a file.

    Attributes:
        number: number of the piece, unique in its batch.
        path: path in its file system.
        start: first byte.
        stop: offset after the last byte; a line belongs to the piece in which it begins.
        size: size of the version; later bytes are not read.
    """

    number: int
    path: str
    start: int
    stop: int
    size: int


def codec_of(path: str) -> str | None:
    """The compression according to the file name's ending; ``None`` for none."""
    try:
        name: str = pa.Codec.detect(path).name
    except (TypeError, ValueError):
        return None  # pyarrow does not know the ending
    return name


def partitions(versions: Sequence[FileVersion], unit: int | None, parallelism: int) -> list[tuple[FilePiece, ...]]:
    """Distribute files over partitions, in order.

    Args:
        versions: the files.
        unit: files may be split at multiples of this many bytes; ``None``: they may not be split.
        parallelism: number of tasks that can run at a time; files are split further to use all of them.
    """
    total = sum(version.size + _OPEN_BYTES for version in versions)
    max_bytes = min(MAX_PARTITION_BYTES, max(_MIN_PARTITION_BYTES, -(-total // max(parallelism, 1))))
    ranges = [(version, *part) for version in versions for part in _ranges(version, unit, max_bytes)]
    pieces = (
        Packable(FilePiece(number, version.path, start, stop, version.size), stop - start + _OPEN_BYTES)
        for number, (version, start, stop) in enumerate(ranges)
    )
    return pack(pieces, max_bytes=max_bytes)


def _ranges(version: FileVersion, unit: int | None, max_bytes: int) -> Iterator[tuple[int, int]]:
    size = version.size
    # A file whose size is not a multiple of the unit is not split, so that one reader reports the error once.
    if unit is None or size <= max_bytes * _SLACK or size % unit or codec_of(version.path) is not None:
        yield 0, size
        return
    step = max(max_bytes - max_bytes % unit, unit)
    start = 0
    while size - start > step * _SLACK:
        yield start, start + step
        start += step
    yield start, size
