"""Tables of each kind in a folder, with an independent reader, and the work of Spark's tasks without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugins.tables.tests.independent_readers import (
    Rows,
    rows_of_delta,
    rows_of_files,
    rows_of_iceberg,
    rows_of_postgresql,
    rows_of_sqlite,
)

from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.sql_table import SqlTableSettings
from penstock_tables.table import Table

if TYPE_CHECKING:
    from tests.helpers.postgresql import PostgreSqlServer

KINDS = ("delta", "iceberg", "sql", "files")


class Kind:
    """A kind of table in a folder, and an independent reader of it; with ``table``, that one instead, of a server."""

    def __init__(
        self, name: str, folder: Path, table: Table | None = None, server: PostgreSqlServer | None = None
    ) -> None:
        self.name = name
        self.folder = folder
        self.server = server
        self.table = table or self._new(name)

    def _new(self, name: str) -> Table:
        match name:
            case "delta":
                return DeltaTableSettings(str(self.folder / "delta"))
            case "iceberg":
                folder = self.folder / "warehouse"
                folder.mkdir(exist_ok=True)
                options = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
                return IcebergTableSettings("shop.orders", "test", options)
            case "sql":
                return SqlTableSettings(f"sqlite:///{self.folder}/shop.db", "orders")
        return FileTableSettings(str(self.folder / "files"))

    def rows(self) -> Rows:
        """The rows that a reader sees, sorted."""
        match self.table:
            case DeltaTableSettings():
                rows = rows_of_delta(self.table)
            case IcebergTableSettings():
                rows = rows_of_iceberg(self.table)
            case SqlTableSettings() if self.server is not None:
                rows = rows_of_postgresql(self.server, self.table.url.rpartition("/")[2])
            case SqlTableSettings():
                rows = rows_of_sqlite(self.folder / "shop.db", "SELECT * FROM orders")
            case _:
                rows = rows_of_files(self.folder / "files")
        return ordered(rows)


def ordered(rows: Iterable[dict[str, Any]]) -> Rows:
    """Rows in an order of their own."""
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def task(rows: Iterable[Any], partitions: int = 2) -> Callable[[PartitionWriter], list[str]]:
    """Write records in partitions, as Spark's tasks would."""
    rows = list(rows)

    def run(writer: PartitionWriter) -> list[str]:
        parts = 1 if hasattr(writer, "settings") else partitions
        return [file for index in range(parts) for file in writer.write_records(index, rows[index::parts])]

    return run
