"""Delta tables, through delta-rs. Its log saves application transactions, which carry the identity of a batch."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock import ConfigurationError
from penstock.spi import absolute_location, is_remote, text_of
from penstock_tables.batch_identity import BatchId, Standing, check_absence
from penstock_tables.partition_writer import PartitionWriter, place_of
from penstock_tables.table import Commit, CommitConflictError, MissingTableError, OpenTable, Table
from penstock_tables.table_schemas import check_partition_columns

_BATCH = "penstock.batch"
# Beginnings of the properties of a table, and of its columns, that ask a writer for more than to add files.
_RULES = ("delta.constraints.", "delta.columnMapping.mode")
_RULES_OF_COLUMNS = ("delta.generationExpression", "delta.identity.", "delta.invariants")


@frozen
class DeltaTableSettings(Table):
    """A Delta table.

    Attributes:
        location: absolute path or URI.
        partition_by: partition columns, if the table is created.
        storage_options: options of the object store, as for delta-rs.
    """

    location: str = field(converter=absolute_location)
    partition_by: tuple[str, ...] = ()
    storage_options: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def name(self) -> str:
        return f"Delta table {self.location}"

    @property
    def dataset(self) -> str:
        return self.location if is_remote(self.location) else f"file:{self.location}"

    @property
    def place(self) -> object:
        return place_of(self.location)

    def open(self, schema: pa.Schema | None) -> OpenTable:
        import deltalake

        options = dict(self.storage_options) or None
        if not deltalake.DeltaTable.is_deltatable(self.location, options):
            if schema is None:
                raise MissingTableError(f"{self.name} does not exist: give schema=, with which it is created")
            check_partition_columns(self.partition_by, schema)
            deltalake.DeltaTable.create(
                self.location, schema, mode="ignore", partition_by=list(self.partition_by), storage_options=options
            )
        table = self.newest()
        _check_rules(table, self.name)
        return OpenDeltaTable(table, self)

    def newest(self) -> Any:
        """The newest version, as delta-rs opens it."""
        import deltalake

        return deltalake.DeltaTable(self.location, storage_options=dict(self.storage_options) or None)


def _check_rules(table: Any, name: str) -> None:
    properties = table.metadata().configuration.items()
    rules = [key for key, value in properties if key.startswith(_RULES) and value != "none"]
    rules += [
        f"{key} of column {column.name!r}"
        for column in table.schema().fields
        for key in column.metadata
        if key.startswith(_RULES_OF_COLUMNS)
    ]
    if rules:
        raise ConfigurationError(
            f"{name} has rules that to_delta does not apply: {', '.join(rules)}. Drop them, or write the batches with "
            "foreachBatch and Spark's own writer, with txnAppId and txnVersion"
        )


class OpenDeltaTable(OpenTable):
    """A version of a Delta table."""

    def __init__(self, table: Any, settings: DeltaTableSettings) -> None:
        self._table = table
        self._settings = settings
        # Each look-up reads the log of the version again.
        self._standings: dict[BatchId, Standing] = {}

    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def standing(self, batch: BatchId) -> Standing:
        if batch not in self._standings:
            newest, own, last_ms = map(self._table.transaction_version, _transactions(batch))
            self._standings[batch] = Standing(newest or 0, own, -1 if last_ms is None else last_ms)
        return self._standings[batch]

    def has(self, batch: BatchId) -> bool:
        oldest: dict[str, Any] = {"version": -1}
        for oldest in self._table.history():
            if oldest.get(_BATCH) == batch.saved:
                return True
        check_absence(batch, self._settings.name, oldest.get("timestamp"), is_whole=oldest["version"] == 0)
        return False

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        import deltalake

        self._table.alter.add_columns(list(deltalake.Schema.from_arrow(pa.schema(columns)).fields))

    def writer(self, batch: BatchId, schema: pa.Schema, number: int, dead_letter: str | None) -> PartitionWriter:
        partition_by = tuple(self._table.metadata().partition_columns)
        return PartitionWriter(
            batch, self._settings.location, schema, partition_by=partition_by, dead_letter=dead_letter
        )

    def commit(self, commit: Commit) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        now_ms = int(time.time() * 1000)
        actions = [
            AddAction(file.path, file.num_bytes, file.values, now_ms, True, json.dumps({"numRecords": file.rows}))
            for file in commit.files
        ]
        newest, own, last = _transactions(commit.batch)
        last_ms = max(self.standing(commit.batch).last_ms, commit.batch.time_ms)
        saved = [Transaction(newest, commit.number), Transaction(own, commit.number), Transaction(last, last_ms)]
        properties = CommitProperties(custom_metadata={_BATCH: commit.batch.saved}, app_transactions=saved)
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                list(self._table.metadata().partition_columns),
                commit_properties=properties,
            )
        except CommitFailedError as error:
            if self._settings.newest().version() == self._table.version():
                # Nobody was first: delta-rs cannot write into this table.
                raise
            raise CommitConflictError(text_of(error)) from error


def _transactions(batch: BatchId) -> tuple[str, str, str]:
    """The application ids whose versions are the newest writer, the run's number, and the run's last batch time."""
    return (
        f"penstock/{batch.writer}",
        f"penstock/{batch.writer}/{batch.run}/number",
        f"penstock/{batch.writer}/{batch.run}",
    )
