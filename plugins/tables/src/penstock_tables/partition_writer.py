"""Writes the records of one partition into files, in a Spark task, and describes the files to the driver.

A task that Spark repeats writes files with other names; only the files that the driver is told of become part of the
table.
"""

from __future__ import annotations

import contextlib
import json
import socket
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import asdict, field, frozen

from penstock.spi import absolute_location, atomic_write, connect, is_remote
from penstock_tables.batch_identity import BatchId
from penstock_tables.row_fitting import RefusedRow, RowFitting, RowsRefusedError, as_lines

# A file is complete at this size, and the task begins another one.
_FILE_BYTES = 512 << 20
# Rows are written together at either limit: each write is a row group of a Parquet file, and Spark's Arrow batches are
# small. A task with many partition values holds this many bytes for each.
_GROUP_ROWS, _GROUP_BYTES = 131_072, 8 << 20
# Refused records in the error message of a batch.
_SHOWN = 3


@frozen
class DataFile:
    """A file of one batch.

    Attributes:
        path: relative to the table's location.
        rows: number of records in it.
        num_bytes: its size.
        values: the values of the partition columns, by name.
        refused: records of the task that did not fit.
        dead_letter: name of the file that has them; empty if there are none.
    """

    path: str
    rows: int
    num_bytes: int
    values: dict[str, str | None] = field(factory=dict)
    refused: int = 0
    dead_letter: str = ""

    def to_json(self) -> str:
        """Encode for the way from the task to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DataFile:
        """Decode the result of ``to_json``."""
        return cls(**json.loads(text))


@frozen
class PartitionWriter:
    """Called in a task with the records of a partition; yields the files as JSON.

    Attributes:
        location: absolute path or URI of the folder that file paths are relative to.
        folder: folder of the files below the location; empty for the location itself.
        schema: the table's columns, those to add included.
        partition_by: names of the columns whose values are the same within a file.
        named_folders: whether the values are folders of the path, as in ``day=2024-05-01/``; otherwise the table's
            metadata has them.
        keeps_partition_columns: whether the files have the partition columns nevertheless.
        format: ``parquet`` or ``csv``.
        dead_letter: folder for records that do not fit; ``None`` fails the task.
        location_exists: whether the location has to exist, so that nothing is written beside a store that is away.
    """

    batch: BatchId
    location: str
    schema: pa.Schema
    folder: str = ""
    partition_by: tuple[str, ...] = ()
    named_folders: bool = False
    keeps_partition_columns: bool = False
    format: str = "parquet"
    dead_letter: str | None = None
    location_exists: bool = True

    def write_records(self, index: int, records: Iterable[Any]) -> Iterator[str]:
        """Partition function of an RDD of records."""
        return self._written(index, lambda fitting: fitting.records(records))

    def write_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Function for ``DataFrame.mapInArrow``, whose only column is ``file string``."""
        from pyspark import TaskContext

        context = TaskContext.get()
        index = 0 if context is None else context.partitionId()
        files = list(self._written(index, lambda fitting: fitting.batches(batches)))
        yield pa.RecordBatch.from_pydict({"file": pa.array(files, pa.string())})

    def _written(self, index: int, fit: Any) -> Iterator[str]:
        fitting, files = RowFitting(self.schema), dict[tuple[Any, ...], _OpenFile]()
        done = list[DataFile]()
        try:
            for batch in fit(fitting):
                for values, rows in _split(batch, self.partition_by):
                    if values not in files:
                        files[values] = self._open(index, values)
                    files[values].write(rows if self.keeps_partition_columns else rows.drop_columns(self.partition_by))
                    if files[values].num_bytes > _FILE_BYTES:
                        done.append(files.pop(values).close())
            done += [file.close() for file in files.values()]
            files.clear()
        finally:
            for file in files.values():
                file.discard()
        if fitting.refused:
            letters = self._set_aside(index, fitting.refused)
            done.append(DataFile("", 0, 0, refused=len(fitting.refused), dead_letter=letters))
        return (file.to_json() for file in done)

    def _open(self, index: int, values: tuple[Any, ...]) -> _OpenFile:
        is_local = not is_remote(absolute_location(self.location))
        if self.location_exists and is_local and place_of(self.location) is None:
            raise FileNotFoundError(f"{self.location} is missing on {socket.gethostname()}: is its store mounted?")
        named = dict(zip(self.partition_by, map(_as_text, values), strict=True))
        folders = [self.folder] if self.folder else []
        if self.named_folders:
            folders += [f"{name}={_in_path(value)}" for name, value in named.items()]
        name = f"{self.batch.file_prefix}-{index:05d}-{uuid.uuid4().hex[:16]}.{self.format}"
        written = [column for column in self.schema if self.keeps_partition_columns or column.name not in named]
        return _OpenFile(self.location, "/".join([*folders, name]), pa.schema(written), self.format, named)

    def _set_aside(self, index: int, refused: list[RefusedRow]) -> str:
        """Write the records that do not fit into the dead-letter folder; return the name of the file."""
        if self.dead_letter is None:
            examples = "; ".join(f"{row.reason} in {str(row.record)[:200]}" for row in refused[:_SHOWN])
            raise RowsRefusedError(
                f"{len(refused)} records of batch {self.batch.time_ms} do not fit the table: {examples}. Correct them "
                "in the stream, or set dead_letter= to a folder that takes such records"
            )
        # A name of its own: a task that was given up may write a part of the records later.
        name = f"{index:05d}-{uuid.uuid4().hex[:16]}.jsonl"
        write_file(f"{self.dead_letter}/{self.batch.file_prefix}/{name}", as_lines(self.batch.time_ms, refused))
        return name


class _OpenFile:
    """A data file that is being written."""

    def __init__(
        self, location: str, path: str, schema: pa.Schema, file_format: str, values: Mapping[str, str | None]
    ) -> None:
        self._path = path
        self._values = dict(values)
        self._system, self._where = located(f"{location}/{path}")
        self._system.create_dir(self._where.rpartition("/")[0], recursive=True)
        self._sink = self._system.open_output_stream(self._where)
        self._rows = 0
        self._waiting = list[pa.Table]()
        if file_format == "csv":
            from pyarrow import csv

            self._writer: Any = csv.CSVWriter(self._sink, schema)
        else:
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(self._sink, schema, compression="zstd")

    @property
    def num_bytes(self) -> int:
        """The bytes written so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        self._rows += rows.num_rows
        self._waiting.append(rows)
        if (
            sum(waiting.num_rows for waiting in self._waiting) >= _GROUP_ROWS
            or sum(waiting.nbytes for waiting in self._waiting) >= _GROUP_BYTES
        ):
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._writer.write_table(pa.concat_tables(waiting))

    def close(self) -> DataFile:
        """Complete the file."""
        self._flush()
        self._writer.close()
        num_bytes = self.num_bytes
        self._sink.close()
        return DataFile(self._path, self._rows, num_bytes, self._values)

    def discard(self) -> None:
        """Delete what was written, after an error."""
        with contextlib.suppress(Exception):
            self._sink.close()
        with contextlib.suppress(Exception):
            self._system.delete_file(self._where)


def located(location: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path in it."""
    location = absolute_location(location)
    if is_remote(location):
        directory, _, name = location.rpartition("/")
        system, path = connect(directory)
        return system, f"{path}/{name}"
    from pyarrow import fs

    return fs.LocalFileSystem(), location


def place_of(location: str) -> object:
    """What identifies a local folder as long as it is not replaced; ``None`` for a missing folder, and for a URI."""
    from pathlib import Path

    location = absolute_location(location)
    if is_remote(location):
        return None
    try:
        status = Path(location).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_dev, status.st_ino)


def write_file(location: str, data: bytes) -> None:
    """Write a small file, which appears whole on a local file system and on object stores."""
    system, path = located(location)
    system.create_dir(path.rpartition("/")[0], recursive=True)
    if is_remote(absolute_location(location)):
        with system.open_output_stream(path) as sink:
            sink.write(data)
        return
    from pathlib import Path

    with atomic_write(Path(path)) as unfinished:
        unfinished.write_bytes(data)


def create_file(location: str, data: bytes) -> bool:
    """Write a small file, unless it exists; say whether it did not exist.

    Of several concurrent writers on a local file system, one creates the file. Object stores and HDFS have no such
    operation: there the file is looked for first.
    """
    system, path = located(location)
    if is_remote(absolute_location(location)):
        from pyarrow import fs

        if system.get_file_info(path).type != fs.FileType.NotFound:
            return False
        write_file(location, data)
        return True
    from pathlib import Path

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, and not of the form of a name that readers look for.
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(data)
        # Unlike a rename, a link replaces no file.
        target.hardlink_to(unfinished)
    except FileExistsError:
        return False
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def delete_others(folder: str, names: Collection[str]) -> None:
    """Delete the files of a folder, if it exists, that have other names."""
    from pyarrow import fs

    system, path = located(folder)
    for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        if info.type == fs.FileType.File and info.base_name not in names:
            system.delete_file(info.path)


def _split(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows by the values of the partition columns."""
    table = pa.Table.from_batches([batch])
    if not columns:
        yield (), table
        return
    for values in table.select(columns).group_by(list(columns)).aggregate([]).to_pylist():
        matches = [
            pc.is_null(table[name]) if value is None else pc.equal(table[name], pa.scalar(value, table[name].type))
            for name, value in values.items()
        ]
        mask = matches[0]
        for match in matches[1:]:
            mask = pc.and_kleene(mask, match)
        yield tuple(values[name] for name in columns), table.filter(mask)


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_path(value: str | None) -> str:
    from urllib.parse import quote

    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe=" -_.,~")
