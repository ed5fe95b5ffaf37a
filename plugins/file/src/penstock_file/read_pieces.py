"""``ReadPieces``: the partition function of a batch's tasks, which turns file pieces into records or columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from attrs import frozen
from pyarrow import fs

from penstock.spi import text_of
from penstock_file.errors import FileReadError
from penstock_file.file_bytes import FileBytes
from penstock_file.pieces import FilePiece
from penstock_file.readers import Reader

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

R = TypeVar("R", bound=Sized)


@frozen
class ReadPieces:
    """Partition function.

    Attributes:
        filesystem: the file system of the paths.
        reader: converts bytes to records.
        counts: counts the records of each piece.
        batch_time_ms: the batch time.
    """

    filesystem: fs.FileSystem
    reader: Reader
    counts: Accumulator[Any]
    batch_time_ms: int

    def __call__(self, _index: int, partitions: Iterable[tuple[FilePiece, ...]]) -> Iterator[Any]:
        """Read the pieces of a partition, in order."""
        return itertools.chain.from_iterable(self._read(partitions, self.reader.runs))

    def batches(self, partitions: Iterable[tuple[FilePiece, ...]]) -> Iterator[pa.RecordBatch]:
        """Read the pieces of a partition as columns, in order."""
        columns = self._read(partitions, self.reader.columns)
        return (pa.RecordBatch.from_arrays([column], names=["value"]) for column in columns)

    def _read(
        self, partitions: Iterable[tuple[FilePiece, ...]], read: Callable[[FileBytes, FilePiece], Iterator[R]]
    ) -> Iterator[R]:
        return (run for pieces in partitions for piece in pieces for run in self._runs(piece, read))

    def _runs(self, piece: FilePiece, read: Callable[[FileBytes, FilePiece], Iterator[R]]) -> Iterator[R]:
        count = 0
        try:
            with FileBytes(self.filesystem, piece) as data:
                for run in read(data, piece):
                    count += len(run)
                    # Count before the yield, because a consumer that stops here never resumes the generator.
                    self.counts.add({self.batch_time_ms: {piece.number: count}})
                    yield run
        except (OSError, pa.ArrowException) as error:
            words = " ".join(text_of(error).split()) or type(error).__name__
            raise FileReadError(
                f"{piece.path} cannot be read: {words}. Executors need access to it, and nothing may remove or "
                "change files before their batch completes. To read it again, add it under another name"
            ) from error
