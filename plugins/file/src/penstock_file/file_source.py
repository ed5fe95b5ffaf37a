"""``FileSource``: the files that appear in a directory, batch by batch; and its three kinds.

Owns the options, and the way of a batch: have the lister look, take what is queued, make an RDD of references to it.
Never reads a file: tasks do. ``compute`` runs on the generator's loop, which it holds for a share of the batch interval
at most; looking at the directory is done on the lister's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from attrs import astuple, field, frozen
from attrs.validators import ge, gt, min_len

from penstock import ConfigurationError, SourceBatch
from penstock.helpers import get_logger, text_of
from penstock_file.errors import DirectoryMissingError
from penstock_file.file_version import FileVersion
from penstock_file.ledger import Ledger
from penstock_file.lister import Lister
from penstock_file.pieces import partitions
from penstock_file.place import Listing, Place
from penstock_file.read_pieces import ReadPieces
from penstock_file.readers import LineReader, ProgramReader, Reader, RecordReader
from penstock_file.selection import Selection

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

log = get_logger("file")

# Between two looks at a file that was modified just now.
_LOOK_AGAIN_S = 0.05
# Share of the batch interval for which a batch waits for the directory to be looked at.
_PATIENCE = 0.5
# What of a batch is named for people.
_NAMED_FILES = 5
_LONGEST_NAME = 80


@frozen(kw_only=True)
class TextFileOptions:
    """Options of the stream ``text-file``, which the others have too; each one's meaning is its ``help``."""

    directory: str = field(
        validator=min_len(1), metadata={"help": "a path, a URI, or a pattern of directories (/logs/*/)"}
    )
    new_files_only: bool = field(
        default=True, metadata={"help": "leave out what is there when the stream is made; false: read it, too"}
    )
    max_files_per_batch: int = field(
        default=0, validator=ge(0), metadata={"help": "a batch takes no more files, the oldest first; 0: no limit"}
    )
    max_bytes_per_batch: int = field(
        default=0,
        validator=ge(0),
        metadata={"help": "a batch takes no more bytes, but one file in any case; 0: no limit"},
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
        metadata={"help": "given a file's path, says whether to read it; runs on the driver, once for each version"},
    )
    read: Callable[[BinaryIO], Iterable[Any]] | None = field(
        default=None,
        metadata={"help": "given an open binary file, returns its records; runs in tasks; by default lines of text"},
    )


class FileSource:
    """A pulled source of files.

    Args:
        options: which, and how many at a time.
        reader: makes records of their bytes.
        accept: the program's filter.
    """

    def __init__(self, options: TextFileOptions, reader: Reader, accept: Callable[[str], bool] | None = None) -> None:
        self._options, self._reader = options, reader
        self._place = Place(options.directory)
        self._selection = Selection(time.time_ns, accept, self._place.name)
        self._lister = Lister(f"files of {options.directory}", self._look)
        self._ledger = Ledger()
        self._accumulator: Accumulator[Any] | None = None
        self._sc: SparkContext | None = None
        # The files of each batch that may be made again.
        self._batches: dict[int, tuple[FileVersion, ...]] = {}
        self._parallelism = 1
        self._patience_s = 0.0
        # What went wrong with the last listing, so that it is told once; and whether one came too late.
        self._trouble: str | None = None
        self._told_slow = False
        # The file system has not answered yet.
        self._listing = False

    def open(self, sc: SparkContext, batch_interval_ms: int) -> None:
        """Find out what is there already.

        Raises:
            ConfigurationError: that cannot be found out.
        """
        self._sc, self._parallelism = sc, sc.defaultParallelism
        self._patience_s = batch_interval_ms / 1000 * _PATIENCE
        self._accumulator = self._ledger.accumulator(sc)
        if not self._options.new_files_only:
            return
        try:
            self._selection.note(self._place.listing())
        except DirectoryMissingError as error:
            self._warn(f"{text_of(error)}: waiting for it to appear")
        except OSError as error:
            raise ConfigurationError(
                f"{self._place} cannot be listed: {text_of(error)}. Without that nobody can tell the files that are "
                "there already from new ones; see that the driver may list it, or read all with new_files_only=False"
            ) from error

    def start(self) -> None:
        """Start the lister."""
        self._lister.start()

    def compute(self, batch_time_ms: int) -> SourceBatch:
        """The next files.

        Raises:
            FileReadError: the program's filter failed.
        """
        assert self._sc is not None
        if not self._lister.ask(self._patience_s) and self._listing and not self._told_slow:
            self._told_slow = True
            log.warning(
                "listing takes longer than a batch can wait: what it finds goes to later batches",
                directory=str(self._place),
                batch_time=batch_time_ms,
                waited_s=self._patience_s,
                advice="make batches longer, or move files away that have been read",
            )
        taken = self._selection.take(self._options.max_files_per_batch, self._options.max_bytes_per_batch)
        if not taken:
            return SourceBatch(self._sc.emptyRDD())
        try:
            return self._batch(self._sc, batch_time_ms, taken)
        except BaseException:
            self._selection.put_back(taken)
            raise

    def clean_up(self, before_ms: int) -> None:
        """Forget older batches."""
        self._ledger.clean_up(before_ms)
        self._batches = {time_ms: files for time_ms, files in self._batches.items() if time_ms >= before_ms}

    def position(self) -> Mapping[str, Any]:
        """What was read and what waits."""
        return {
            **self._selection.position(),
            "batches": {time_ms: [astuple(version) for version in files] for time_ms, files in self._batches.items()},
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Know what was read and what waits; before the start."""
        self._selection.restore(position)
        self._batches = {
            int(time_ms): tuple(FileVersion(*version) for version in files)
            for time_ms, files in position["batches"].items()
        }

    def compute_again(self, batch_time_ms: int) -> SourceBatch | None:
        """The files of a batch of an earlier run."""
        files = self._batches.get(batch_time_ms)
        assert self._sc is not None
        return None if files is None else self._batch(self._sc, batch_time_ms, files)

    def stop(self) -> None:
        """End the lister."""
        self._lister.stop()

    def _batch(self, sc: SparkContext, batch_time_ms: int, taken: Sequence[FileVersion]) -> SourceBatch:
        assert self._accumulator is not None
        references = partitions(taken, self._reader.unit, self._parallelism)
        read = ReadPieces(self._place.filesystem, self._reader, self._accumulator, batch_time_ms)
        rdd = sc.parallelize(references, len(references)).mapPartitionsWithIndex(read)
        self._ledger.open(batch_time_ms)
        self._batches[batch_time_ms] = tuple(taken)
        names = [self._place.name(version.path) for version in taken]
        metadata = {"files": names, "Description": _description(names, sum(version.size for version in taken))}
        return SourceBatch(rdd, metadata=metadata, count=partial(self._ledger.total, batch_time_ms))

    # -- on the lister's thread --

    def _look(self) -> None:
        try:
            self._selection.look(self._listed(), self._again)
        except DirectoryMissingError as error:
            # What is known stays known: a directory that is away for a moment comes back with the same files.
            self._warn(f"{text_of(error)}: waiting for it to appear")
        except OSError as error:
            self._warn(f"{self._place} cannot be listed: {text_of(error)}; trying again at the next batch")
        else:
            self._trouble = None

    def _listed(self) -> Listing:
        self._listing = True
        try:
            return self._place.listing()
        finally:
            self._listing = False

    def _again(self, paths: Sequence[str]) -> Listing:
        self._lister.stopped.wait(_LOOK_AGAIN_S)
        return self._place.again(paths)

    def _warn(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning(trouble, directory=str(self._place))


def text_files(options: TextFileOptions) -> FileSource:
    """Make the source ``text-file``."""
    return FileSource(options, LineReader())


def binary_records(options: BinaryRecordsOptions) -> FileSource:
    """Make the source ``binary-records``."""
    return FileSource(options, RecordReader(options.record_length))


def files(options: FileStreamOptions) -> FileSource:
    """Make the source ``file``."""
    reader: Reader = LineReader() if options.read is None else ProgramReader(options.read)
    return FileSource(options, reader, options.filter)


def _description(names: Sequence[str], num_bytes: int) -> str:
    """In words, no longer than a line or a few."""
    shown = [name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}" for name in names[:_NAMED_FILES]]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    what = "file" if len(names) == 1 else "files"
    return f"{len(names)} {what}, {num_bytes} bytes: {', '.join(shown)}{more}"
