"""Folders of Parquet or CSV files: one folder per batch, which appears whole, and a manifest of each batch.

``_penstock/manifests`` lists the batches, ``_penstock/staged`` has a folder for each attempt in progress. The manifest
is created first, by one of several drivers; then the attempt's folder is renamed. A batch that was interrupted in
between is completed when it runs again, or by the next run. Object stores cannot rename a folder: there the files are
written in their final location, and only the manifest says what is complete.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import asdict, field, frozen

from penstock import ConfigurationError
from penstock.spi import absolute_location, is_remote
from penstock_tables.batch_identity import BatchId, Standing
from penstock_tables.partition_writer import PartitionWriter, create_file, located, place_of, write_file
from penstock_tables.table import Commit, CommitConflictError, MissingTableError, OpenTable, Table
from penstock_tables.table_schemas import check_partition_columns

_MANIFESTS, _STAGED, _RUNS = "_penstock/manifests", "_penstock/staged", "_penstock/runs"
_WRITER, _SCHEMA = "_penstock/writer.json", "_penstock/schema.arrow"
_RUN = re.compile(r"\d{6}")
# The folder of an attempt at a batch, as parts of its path.
_ATTEMPT = (*_STAGED.split("/"), "<attempt>")
_ATTEMPT_NAME = re.compile(r"(?P<time_ms>\d+)-(?P<run>.+)-[0-9a-f]{8}")
# The run of a number, by location and number: it never changes.
_runs_read: dict[tuple[str, str], str] = {}
# Manifests of a folder: a folder per batch would be as slow to list as one with all of them.
_PERIOD_MS = 3_600_000


@frozen
class FileTableSettings(Table):
    """A folder of files.

    Attributes:
        location: absolute path or URI.
        format: ``parquet`` or ``csv``.
        partition_by: columns whose values become folders of a batch's folder.
    """

    location: str = field(converter=absolute_location)
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"folder {self.location}"

    @property
    def dataset(self) -> str:
        return self.location if is_remote(self.location) else f"file:{self.location}"

    @property
    def place(self) -> object:
        return place_of(self.location)

    def open(self, schema: pa.Schema | None) -> OpenTable:
        table = OpenFileTable(self)
        if table.saved_schema is None:
            if schema is None:
                raise MissingTableError(f"{self.name} is empty: give schema=, the columns of its files")
            check_partition_columns(self.partition_by, schema)
            table.save_schema(schema)
        return table


class OpenFileTable(OpenTable):
    """The batches of a folder."""

    def __init__(self, settings: FileTableSettings) -> None:
        self._settings = settings
        self._system, self._path = located(settings.location)
        self._renames = not is_remote(settings.location) or settings.location.startswith(("hdfs:", "viewfs:"))
        saved = self._read(_SCHEMA)
        #: The columns of the files; ``None`` for a new folder.
        self.saved_schema = None if saved is None else pa.ipc.read_schema(pa.py_buffer(saved))

    def schema(self) -> pa.Schema:
        assert self.saved_schema is not None
        return self.saved_schema

    def save_schema(self, schema: pa.Schema) -> None:
        """Set the columns of the files from now on."""
        write_file(f"{self._settings.location}/{_SCHEMA}", schema.serialize().to_pybytes())
        self.saved_schema = schema

    def standing(self, batch: BatchId) -> Standing:
        self._check_writer(batch)
        runs = self._runs()
        self._settle_attempts(batch, runs)
        own = max((number for number, run in runs.items() if run == batch.run), default=None)
        # A look at the manifest costs no more than to remember the last batch.
        return Standing(max(runs, default=0), own, -1 if own is None else batch.time_ms)

    def has(self, batch: BatchId) -> bool:
        manifest = self._read(_manifest(batch.run, batch.time_ms))
        if manifest is None:
            return False
        self._complete(json.loads(manifest))
        return True

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        self.save_schema(pa.schema([*self.schema(), *columns]))

    def writer(self, batch: BatchId, schema: pa.Schema, number: int, dead_letter: str | None) -> PartitionWriter:
        return PartitionWriter(
            batch,
            self._settings.location,
            schema,
            folder=self._folder_of_attempt(batch),
            partition_by=self._settings.partition_by,
            named_folders=True,
            format=self._settings.format,
            dead_letter=dead_letter,
        )

    def commit(self, commit: Commit) -> None:
        batch = commit.batch
        self._take(commit.number, batch.run)
        written_in = "/".join(commit.files[0].path.split("/")[: len(_ATTEMPT)]) if self._renames else _in_place(batch)
        folder = _folder(batch, commit.number) if self._renames else written_in
        files = [{**asdict(file), "path": folder + file.path.removeprefix(written_in)} for file in commit.files]
        content = {
            **asdict(batch),
            "number": commit.number,
            "rows": commit.rows,
            "staged": written_in,
            "folder": folder,
            "files": files,
        }
        self._discard_unlisted(written_in, {file.path for file in commit.files})
        manifest = json.dumps(content, indent=1, ensure_ascii=False).encode(errors="backslashreplace")
        if not create_file(f"{self._settings.location}/{_manifest(batch.run, batch.time_ms)}", manifest):
            raise CommitConflictError(f"another driver of this run has written the manifest of batch {batch.time_ms}")
        self._complete(content)

    def _discard_unlisted(self, folder: str, listed: set[str]) -> None:
        """Delete the files of tasks that failed or were repeated."""
        from pyarrow import fs

        if not self._renames:
            return
        for info in self._system.get_file_info(fs.FileSelector(f"{self._path}/{folder}", recursive=True)):
            if info.type == fs.FileType.File and info.path.removeprefix(f"{self._path}/") not in listed:
                self._system.delete_file(info.path)

    def _folder_of_attempt(self, batch: BatchId) -> str:
        """A folder in which the tasks of one attempt write the files of a batch."""
        if not self._renames:
            return _in_place(batch)
        return "/".join([*_ATTEMPT[:-1], f"{_attempts(asdict(batch))}{uuid.uuid4().hex[:8]}"])

    def _complete(self, manifest: dict[str, Any]) -> None:
        """Rename the batch's folder, unless that has happened; delete those of other attempts."""
        if not self._renames:
            return
        final, staged = f"{self._path}/{manifest['folder']}", f"{self._path}/{manifest['staged']}"
        if not self._is_folder(final):
            try:
                self._system.move(staged, final)
            except OSError:
                # Two drivers of one run may both find a batch that an interrupted one has left.
                if not self._is_folder(final):
                    raise ConfigurationError(
                        f"the files of batch {manifest['time_ms']} are missing from {self._settings.name}, which has "
                        f"its manifest: restore {manifest['folder']}, or delete the manifest below {_MANIFESTS} to "
                        "write the batch again"
                    ) from None
        self._discard_attempts(manifest)

    def _settle_attempts(self, batch: BatchId, runs: Mapping[int, str]) -> None:
        """Finish the commits that other runs were interrupted in, and delete the attempts of refused runs."""
        from pyarrow import fs

        if not self._renames:
            return
        refused = {runs[number] for number in sorted(runs)[:-1]}
        for info in self._system.get_file_info(fs.FileSelector(f"{self._path}/{_STAGED}", allow_not_found=True)):
            parts = _ATTEMPT_NAME.fullmatch(info.base_name)
            if parts is None or parts["run"] == batch.run:
                continue
            saved = self._read(_manifest(parts["run"], int(parts["time_ms"])))
            manifest = None if saved is None else json.loads(saved)
            if manifest is not None and manifest["staged"] == f"{_STAGED}/{info.base_name}":
                self._complete(manifest)
            elif manifest is not None or parts["run"] in refused:
                with contextlib.suppress(FileNotFoundError):
                    self._system.delete_dir(info.path)

    def _is_folder(self, path: str) -> bool:
        from pyarrow import fs

        (info,) = self._system.get_file_info([path])
        return bool(info.type == fs.FileType.Directory)

    def _discard_attempts(self, manifest: dict[str, Any]) -> None:
        """Delete the folders of other attempts; another driver that still writes into one fails, and looks again."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{_STAGED}", allow_not_found=True)
        for info in self._system.get_file_info(selector):
            if info.base_name.startswith(_attempts(manifest)):
                with contextlib.suppress(FileNotFoundError):
                    self._system.delete_dir(info.path)

    def _runs(self) -> dict[int, str]:
        """The run of each number."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{_RUNS}", allow_not_found=True)
        names = (info.base_name for info in self._system.get_file_info(selector))
        return {int(name): self._run_of(name) for name in names if _RUN.fullmatch(name)}

    def _run_of(self, name: str) -> str:
        place = self._settings.location, name
        if place not in _runs_read:
            run = self._read(f"{_RUNS}/{name}")
            if run is None:
                raise FileNotFoundError(f"{_RUNS}/{name} has gone from {self._settings.name}: is its store mounted?")
            _runs_read[place] = run.decode()
        return _runs_read[place]

    def _take(self, number: int, run: str) -> None:
        """Register a run under its number; raises ``CommitConflictError`` if another run has it."""
        if self._runs().get(number) == run:
            return
        create_file(f"{self._settings.location}/{_RUNS}/{number:06d}", run.encode())
        if self._run_of(f"{number:06d}") != run:
            raise CommitConflictError(f"another run of the program has number {number} in {self._settings.name}")

    def _check_writer(self, batch: BatchId) -> None:
        writer = {"application": batch.application, "output": batch.output}
        saved = self._read(_WRITER)
        if saved is None:
            create_file(f"{self._settings.location}/{_WRITER}", json.dumps(writer).encode())
            saved = self._read(_WRITER)
        if saved is not None and (other := json.loads(saved)) != writer:
            raise ConfigurationError(
                f"{self._settings.name} belongs to output {other.get('output')!r} of application "
                f"{other.get('application')!r}: give output {batch.output!r} of {batch.application!r} its own folder"
            )

    def _read(self, path: str) -> bytes | None:
        try:
            with self._system.open_input_stream(f"{self._path}/{path}") as file:
                data: bytes = file.read()
                return data
        except FileNotFoundError:
            return None


def _manifest(run: str, time_ms: int) -> str:
    return f"{_MANIFESTS}/{run}/{time_ms // _PERIOD_MS * _PERIOD_MS}/{time_ms}.json"


def _attempts(manifest: Mapping[str, Any]) -> str:
    """The beginning of the names of the folders of attempts at a batch."""
    return f"{manifest['time_ms']}-{manifest['run']}-"


def _in_place(batch: BatchId) -> str:
    """The folder of a batch where folders cannot be renamed."""
    return f"batch={batch.time_ms}-{batch.run}"


def _folder(batch: BatchId, number: int) -> str:
    return f"batch={batch.time_ms}" + (f"-{number}" if number > 1 else "")
