"""``FileSource``: the new files of a directory, batch by batch, for the three file streams.

A batch is an RDD of references to file pieces; tasks read the files. ``compute`` runs on the generator's thread and
waits for a listing no longer than a share of the batch interval; the listing runs on the lister's thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from attrs import astuple, field, frozen
from attrs.validators import ge, gt, min_len

from penstock import ArrowInput, ConfigurationError, SourceBatch
from penstock.spi import get_logger, text_of
from penstock_file.directory_pattern import DirectoryPattern, Listing
from penstock_file.errors import DirectoryMissingError
from penstock_file.file_selector import FileSelector
from penstock_file.file_version import FileVersion
from penstock_file.lister import Lister
from penstock_file.pieces import partitions
from penstock_file.read_pieces import ReadPieces
from penstock_file.readers import LineReader, ProgramReader, Reader, RecordReader
from penstock_file.record_counts import RecordCounts

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.accumulators import Accumulator

log = get_logger("file")

# Seconds until a recently modified file is checked again.
_LOOK_AGAIN_S = 0.05
# Share of the batch interval that a batch waits for the listing.
_LISTING_SHARE = 0.5
# Maximum seconds that the first batch of a downtime waits for the listing.
_LATE_LISTING_S = 30.0
# File names in the description of a batch.
_NAMED_FILES = 5
_LONGEST_NAME = 80
# A directory that remains unavailable is logged again after this many seconds.
_LOG_AGAIN_S = 600


@frozen(kw_only=True)
class TextFileOptions:
    """Options of the stream ``text-file``, shared by the other two; the ``help`` of each field describes it."""

    directory: str = field(
        validator=min_len(1), metadata={"help": "a path, a URI, or a pattern of directories (/logs/*/)"}
    )
    new_files_only: bool = field(
        default=True, metadata={"help": "skip files that exist when the stream is made; false: read them too"}
    )
    max_files_per_batch: int = field(
        default=0, validator=ge(0), metadata={"help": "maximum files in a batch, oldest first; 0: no limit"}
    )
    max_bytes_per_batch: int = field(
        default=0,
        validator=ge(0),
        metadata={"help": "maximum bytes in a batch, but at least one file; 0: no limit"},
    )


@frozen(kw_only=True)
class BinaryRecordsOptions(TextFileOptions):
    """Options of the stream ``binary-records``."""

    record_length: int = field(validator=gt(0), metadata={"help": "bytes of a record"})


@frozen(kw_only=True)
class FileStreamOptions(TextFileOptions):
    """Options of the stream ``file``."""

    filter: Callable[[str], bool] | None = field(
        default=None,
        metadata={"help": "function of a file's path that says whether to read it; runs on the driver, once a version"},
    )
    read: Callable[[BinaryIO], Iterable[Any]] | None = field(
        default=None,
        metadata={"help": "function of an open binary file; returns its records, in tasks; default: lines of text"},
    )


class FileSource:
    """An input source that reads files.

    Args:
        options: directory and limits.
        reader: converts bytes to records.
        accept: the user's filter.
    """

    def __init__(self, options: TextFileOptions, reader: Reader, accept: Callable[[str], bool] | None = None) -> None:
        self._options = options
        self._reader = reader
        self._directory = DirectoryPattern(options.directory)
        self._selector = FileSelector(time.time_ns, accept, self._directory.name)
        self._lister = Lister(f"files of {options.directory}", self._look)
        self._record_counts = RecordCounts()
        self._accumulator: Accumulator[Any] | None = None
        self._sc: SparkContext | None = None
        # The files of each batch that may be generated again.
        self._batches: dict[int, tuple[FileVersion, ...]] = {}
        self._parallelism = 1
        self._listing_timeout_s = 0.0
        # Whether a listing has ended since the start.
        self._is_listed = False
        # Whether a listing is running.
        self._listing = False

    def open(self, sc: SparkContext, batch_interval_ms: int) -> None:
        """Mark existing files as known.

        Raises:
            ConfigurationError: the directory cannot be listed.
        """
        self._sc = sc
        self._parallelism = sc.defaultParallelism
        self._listing_timeout_s = batch_interval_ms / 1000 * _LISTING_SHARE
        self._accumulator = self._record_counts.accumulator(sc)
        if not self._options.new_files_only:
            return
        try:
            self._selector.note(self._directory.listing())
        except DirectoryMissingError as error:
            self._log_missing(error)
        except OSError as error:
            raise ConfigurationError(
                f"{self._directory} cannot be listed: {text_of(error)}. Existing files cannot be distinguished from "
                "new ones then: give the driver access, or read all files with new_files_only=False"
            ) from error

    def start(self) -> None:
        """Start the lister."""
        self._lister.start()

    def compute(self, batch_time_ms: int) -> SourceBatch:
        """Create a batch from the next files.

        Raises:
            FileReadError: the user's filter failed.
        """
        assert self._sc is not None
        self._list(batch_time_ms, self._listing_timeout_s)
        return self._next(self._sc, batch_time_ms, math.inf)

    def compute_late(self, batch_time_ms: int) -> SourceBatch:
        """Create a batch of the downtime from the next files that were modified by its time.

        Raises:
            FileReadError: the user's filter failed.
        """
        assert self._sc is not None
        # One complete listing after the start shows all files of the downtime.
        if not self._is_listed:
            self._is_listed = self._list(batch_time_ms, max(self._listing_timeout_s, _LATE_LISTING_S))
        return self._next(self._sc, batch_time_ms, batch_time_ms * 1e6)

    def _list(self, batch_time_ms: int, timeout_s: float) -> bool:
        has_ended = self._lister.ask(timeout_s)
        if not has_ended and self._listing:
            log.warning(
                "directory listing too slow, files delayed",
                path=str(self._directory),
                batch_time=batch_time_ms,
                waited_s=timeout_s,
                advice="lengthen the batch interval, or move files away that have been read",
                throttle_s=_LOG_AGAIN_S,
            )
        return has_ended

    def _next(self, sc: SparkContext, batch_time_ms: int, until_ns: float) -> SourceBatch:
        taken = self._selector.take(self._options.max_files_per_batch, self._options.max_bytes_per_batch, until_ns)
        if not taken:
            return self._empty(sc, batch_time_ms)
        try:
            return self._batch(sc, batch_time_ms, taken)
        except BaseException:
            self._selector.put_back(taken)
            raise

    def clean_up(self, before_ms: int) -> None:
        """Drop older batches."""
        self._record_counts.clean_up(before_ms)
        self._batches = {time_ms: files for time_ms, files in self._batches.items() if time_ms >= before_ms}

    def position(self) -> Mapping[str, Any]:
        """The known files, the queued files, and the files of batches."""
        return {
            **self._selector.position(),
            "batches": {time_ms: [astuple(version) for version in files] for time_ms, files in self._batches.items()},
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take over the known and the queued files of an earlier run."""
        self._selector.restore(position)
        self._batches = {
            int(time_ms): tuple(FileVersion(*version) for version in files)
            for time_ms, files in position["batches"].items()
        }

    def compute_again(self, batch_time_ms: int) -> SourceBatch:
        """Create a batch of an earlier run again."""
        files = self._batches.get(batch_time_ms)
        assert self._sc is not None
        return self._empty(self._sc, batch_time_ms) if files is None else self._batch(self._sc, batch_time_ms, files)

    def stop(self) -> None:
        """End the lister."""
        self._lister.stop()

    def _empty(self, sc: SparkContext, batch_time_ms: int) -> SourceBatch:
        return SourceBatch(sc.emptyRDD(), arrow=self._columns(None, self._read(batch_time_ms)))

    def _batch(self, sc: SparkContext, batch_time_ms: int, taken: Sequence[FileVersion]) -> SourceBatch:
        pieces = partitions(taken, self._reader.unit, self._parallelism)
        references, read = sc.parallelize(pieces, len(pieces)), self._read(batch_time_ms)
        self._record_counts.open(batch_time_ms)
        self._batches[batch_time_ms] = tuple(taken)
        names = [self._directory.name(version.path) for version in taken]
        metadata = {"files": names, "Description": _description(names, sum(version.size for version in taken))}
        return SourceBatch(
            references.mapPartitionsWithIndex(read),
            metadata=metadata,
            count=partial(self._record_counts.total, batch_time_ms),
            arrow=self._columns(references, read),
        )

    def _read(self, batch_time_ms: int) -> ReadPieces:
        assert self._accumulator is not None
        return ReadPieces(self._directory.filesystem, self._reader, self._accumulator, batch_time_ms)

    def _columns(self, references: RDD[Any] | None, read: ReadPieces) -> ArrowInput | None:
        """The batch as columns; ``None`` when the records are Python objects."""
        if self._reader.column_type is None:
            return None
        schema = pa.schema([("value", self._reader.column_type)])
        return ArrowInput(references, read, lambda: schema)

    # -- on the lister's thread --

    def _look(self) -> None:
        try:
            self._selector.look(self._listed(), self._again)
        except DirectoryMissingError as error:
            # The files remain known: a directory that vanishes for a moment reappears with the same files.
            self._log_missing(error)
        except OSError as error:
            log.warning(
                "directory not listed, retrying at next batch",
                path=str(self._directory),
                reason=text_of(error),
                throttle_s=_LOG_AGAIN_S,
            )

    def _listed(self) -> Listing:
        self._listing = True
        try:
            return self._directory.listing()
        finally:
            self._listing = False

    def _again(self, paths: Sequence[str]) -> Listing:
        self._lister.stopped.wait(_LOOK_AGAIN_S)
        return self._directory.again(paths)

    def _log_missing(self, error: DirectoryMissingError) -> None:
        log.warning(
            "directory missing, waiting for it",
            path=str(self._directory),
            reason=text_of(error),
            throttle_s=_LOG_AGAIN_S,
        )


def text_files(options: TextFileOptions) -> FileSource:
    """Create the source of ``text-file``."""
    return FileSource(options, LineReader())


def binary_records(options: BinaryRecordsOptions) -> FileSource:
    """Create the source of ``binary-records``."""
    return FileSource(options, RecordReader(options.record_length))


def files(options: FileStreamOptions) -> FileSource:
    """Create the source of ``file``."""
    reader: Reader = LineReader() if options.read is None else ProgramReader(options.read)
    return FileSource(options, reader, options.filter)


def _description(names: Sequence[str], num_bytes: int) -> str:
    """Describe a batch for Spark's UI."""
    short_names = [
        name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}" for name in names[:_NAMED_FILES]
    ]
    more = f" and {len(names) - len(short_names)} more" if len(names) > len(short_names) else ""
    what = "file" if len(names) == 1 else "files"
    return f"{len(names)} {what}, {num_bytes} bytes: {', '.join(short_names)}{more}"
