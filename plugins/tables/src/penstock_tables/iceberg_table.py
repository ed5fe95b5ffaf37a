"""Iceberg tables, through PyIceberg. Snapshot properties carry the identity of a batch, table properties its writer.

PyIceberg repeats a commit by itself when another writer was first, without looking whether that writer has added the
same batch. So its retries are off for the commits made here, and the output looks again before each attempt.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock import ConfigurationError
from penstock.spi import text_of
from penstock_tables.batch_identity import BatchId, Standing, check_absence
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.table import Commit, CommitConflictError, MissingTableError, OpenTable, Table

_BATCH = "penstock.batch"
_DATA = "data"
# Number of earlier runs that a table remembers for each output.
_RUNS = 100


@frozen
class IcebergTableSettings(Table):
    """An Iceberg table.

    Attributes:
        identifier: ``namespace.table``.
        catalog: name of the catalog in PyIceberg's configuration.
        catalog_options: properties of the catalog, beside those of its configuration.
    """

    identifier: str
    catalog: str = "default"
    catalog_options: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def name(self) -> str:
        return f"Iceberg table {self.identifier} of catalog {self.catalog}"

    def open(self, schema: pa.Schema | None) -> OpenTable:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        catalog = load_catalog(self.catalog, **self.catalog_options)
        try:
            table = catalog.load_table(self.identifier)
        except NoSuchTableError:
            if schema is None:
                raise MissingTableError(f"{self.name} does not exist: give schema=, with which it is created") from None
            catalog.create_namespace_if_not_exists(self.identifier.rpartition(".")[0])
            try:
                table = catalog.create_table(self.identifier, schema)
            except TableAlreadyExistsError:
                table = catalog.load_table(self.identifier)
        # Only in this object: the catalog keeps the table's own setting.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        return OpenIcebergTable(table, self)


class OpenIcebergTable(OpenTable):
    """A version of an Iceberg table."""

    def __init__(self, table: Any, settings: IcebergTableSettings) -> None:
        self._table = table
        self._settings = settings

    def schema(self) -> pa.Schema:
        return pa.schema([column.remove_metadata() for column in self._table.schema().as_arrow()])

    def standing(self, batch: BatchId) -> Standing:
        saved = json.loads(self._table.properties.get(_property(batch), "{}"))
        own = saved.get("runs", {}).get(batch.run)
        newest = saved.get("newest", 0)
        return Standing(newest) if own is None else Standing(newest, *own)

    def has(self, batch: BatchId) -> bool:
        snapshots = self._table.metadata.snapshots
        if any(batch.saved == (snapshot.summary or {}).get(_BATCH) for snapshot in snapshots):
            return True
        oldest = min(snapshots, key=lambda snapshot: snapshot.timestamp_ms, default=None)
        if oldest is not None:
            is_first = oldest.parent_snapshot_id is None
            check_absence(batch, self._settings.name, oldest.timestamp_ms, is_whole=is_first)
        return False

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        added = pa.schema([*self.schema(), *columns])
        with self._table.update_schema() as update:
            update.union_by_name(added)

    def writer(self, batch: BatchId, schema: pa.Schema, number: int, dead_letter: str | None) -> PartitionWriter:
        return PartitionWriter(
            batch,
            self._table.location(),
            schema,
            folder=_DATA,
            partition_by=self._partition_columns(),
            keeps_partition_columns=True,
            dead_letter=dead_letter,
            # The metadata may be elsewhere.
            location_exists=self._table.metadata_location.startswith(self._table.location()),
        )

    def _partition_columns(self) -> tuple[str, ...]:
        names = []
        for part in self._table.spec().fields:
            if str(part.transform) != "identity":
                raise ConfigurationError(
                    f"{self._settings.name} is partitioned by {part.transform}({part.name}); to_iceberg writes tables "
                    "without partitions, and tables partitioned by the value of a column (identity)"
                )
            names.append(self._table.schema().find_column_name(part.source_id))
        return tuple(names)

    def commit(self, commit: Commit) -> None:
        from pyiceberg.exceptions import CommitFailedException

        batch, standing = commit.batch, self.standing(commit.batch)
        saved = json.loads(self._table.properties.get(_property(batch), "{}"))
        # The runs before the newest are remembered as older ones.
        runs = {run: entry for run, entry in saved.get("runs", {}).items() if entry[0] > commit.number - _RUNS}
        runs[batch.run] = [commit.number, max(standing.last_ms, batch.time_ms)]
        owner = json.dumps({"newest": commit.number, "runs": runs, "written_ms": int(time.time() * 1000)})
        paths = [f"{self._table.location()}/{file.path}" for file in commit.files]
        try:
            with self._table.transaction() as transaction:
                transaction.set_properties({_property(batch): owner})
                transaction.add_files(paths, snapshot_properties={_BATCH: batch.saved}, check_duplicate_files=False)
        except CommitFailedException as error:
            raise CommitConflictError(text_of(error)) from error


def _property(batch: BatchId) -> str:
    return f"penstock.{batch.writer}"
