"""Folders of Parquet or CSV files: one folder per batch, which appears whole, and a manifest of each batch.

``_penstock/manifests`` lists the batches, ``_penstock/staged`` contains those in progress. The manifest is written
first, then the folder is renamed; a batch that was interrupted in between is completed when it runs again. Object
stores cannot rename a folder: there the files are written in their final location, and only the manifest says what is
complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from attrs import asdict, field, frozen

from penstock import ConfigurationError
from penstock.spi import absolute_location, is_remote
from penstock_tables.batch_identity import BatchId, Standing
from penstock_tables.partition_writer import PartitionWriter, located, write_file
from penstock_tables.table import Commit, OpenTable, Table
from penstock_tables.table_schemas import TableSchemaError

_MANIFESTS, _STAGED = "_penstock/manifests", "_penstock/staged"
_WRITER, _SCHEMA = "_penstock/writer.json", "_penstock/schema.arrow"
_MANIFEST = re.compile(r"(\d{6})-([0-9A-Za-z.-]+)-(\d+)\.json")


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

    def open(self, schema: pa.Schema | None) -> OpenTable:
        table = OpenFileTable(self)
        if table.saved_schema is None:
            if schema is None:
                raise TableSchemaError(f"{self.name} is empty: give schema=, the columns of its files")
            missing = [name for name in self.partition_by if name not in schema.names]
            if missing:
                raise TableSchemaError(f"partition_by names {missing}, and the batch has {schema.names}")
            table.save_schema(schema)
        return table


class _Manifest(NamedTuple):
    number: int
    run: str
    time_ms: int

    @property
    def file_name(self) -> str:
        return f"{self.number:06d}-{self.run}-{self.time_ms}.json"


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
        manifests = self._manifests()
        own = [manifest for manifest in manifests if manifest.run == batch.run]
        return Standing(
            max((manifest.number for manifest in manifests), default=0),
            max((manifest.number for manifest in own), default=None),
            max((manifest.time_ms for manifest in own), default=-1),
        )

    def has(self, batch: BatchId) -> bool:
        manifests = self._manifests()
        manifest = next((one for one in manifests if (one.run, one.time_ms) == (batch.run, batch.time_ms)), None)
        if manifest is None:
            return False
        self._complete(manifest, json.loads(self._read(f"{_MANIFESTS}/{manifest.file_name}") or b"{}"))
        return True

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        self.save_schema(pa.schema([*self.schema(), *columns]))

    def writer(self, batch: BatchId, schema: pa.Schema, number: int, dead_letter: str | None) -> PartitionWriter:
        folder = _folder(_Manifest(number, batch.run, batch.time_ms))
        return PartitionWriter(
            batch,
            self._settings.location,
            schema,
            folder=f"{_STAGED}/{folder}" if self._renames else folder,
            partition_by=self._settings.partition_by,
            named_folders=True,
            format=self._settings.format,
            dead_letter=dead_letter,
        )

    def commit(self, commit: Commit) -> None:
        batch = commit.batch
        manifest = _Manifest(commit.number, batch.run, batch.time_ms)
        folder = _folder(manifest)
        files = [{**asdict(file), "path": file.path.removeprefix(f"{_STAGED}/")} for file in commit.files]
        self._discard_unlisted(folder, {file["path"] for file in files})
        content = {**asdict(batch), "number": commit.number, "rows": commit.rows, "folder": folder, "files": files}
        location = f"{self._settings.location}/{_MANIFESTS}/{manifest.file_name}"
        write_file(location, json.dumps(content, indent=1, ensure_ascii=False).encode(errors="backslashreplace"))
        self._complete(manifest, content)

    def _discard_unlisted(self, folder: str, listed: set[str]) -> None:
        """Delete the files of tasks that failed or were repeated."""
        from pyarrow import fs

        if not self._renames:
            return
        root = f"{self._path}/{_STAGED}"
        for info in self._system.get_file_info(fs.FileSelector(f"{root}/{folder}", recursive=True)):
            if info.type == fs.FileType.File and info.path.removeprefix(f"{root}/") not in listed:
                self._system.delete_file(info.path)

    def _complete(self, manifest: _Manifest, content: dict[str, Any]) -> None:
        from pyarrow import fs

        if not self._renames:
            return
        folder = content.get("folder") or _folder(manifest)
        final, staged = f"{self._path}/{folder}", f"{self._path}/{_STAGED}/{folder}"
        final_info, staged_info = self._system.get_file_info([final, staged])
        if final_info.type == fs.FileType.Directory:
            if staged_info.type == fs.FileType.Directory:
                # An attempt that found the batch written only afterwards.
                self._system.delete_dir(staged)
        elif staged_info.type == fs.FileType.Directory:
            self._system.move(staged, final)
        else:
            raise ConfigurationError(
                f"the files of batch {manifest.time_ms} are missing from {self._settings.name}, which has its "
                f"manifest: restore {folder}, or delete the manifest {manifest.file_name} to write the batch again"
            )

    def _manifests(self) -> list[_Manifest]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{_MANIFESTS}", allow_not_found=True)
        matches = (_MANIFEST.fullmatch(info.base_name) for info in self._system.get_file_info(selector))
        return [_Manifest(int(match[1]), match[2], int(match[3])) for match in matches if match]

    def _check_writer(self, batch: BatchId) -> None:
        writer = {"application": batch.application, "output": batch.output}
        saved = self._read(_WRITER)
        if saved is None:
            write_file(f"{self._settings.location}/{_WRITER}", json.dumps(writer).encode())
        elif (other := json.loads(saved)) != writer:
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


def _folder(manifest: _Manifest) -> str:
    return f"batch={manifest.time_ms}" + (f"-{manifest.number}" if manifest.number > 1 else "")
