"""Readers of tables that share no code with the writers: DuckDB's own readers of Delta, Iceberg and Parquet, and SQL.

The catalog of Iceberg is asked in SQL as well: its database is SQLite.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings

if TYPE_CHECKING:
    from tests.helpers.postgresql import PostgreSqlServer

Rows = list[dict[str, Any]]


@cache
def database() -> duckdb.DuckDBPyConnection:
    """A database of DuckDB with its extensions, which it accepts by their signature."""
    connection = duckdb.connect()
    # Iceberg's manifests are Avro files.
    for name in ("avro", "delta", "iceberg"):
        module = find_spec(f"duckdb_extension_{name}")
        assert module is not None
        assert module.origin is not None
        (extension,) = Path(module.origin).parent.glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension")
        connection.load_extension(str(extension))
    return connection


def query(relation: str, *parameters: object) -> Rows:
    """The rows of a query by DuckDB."""
    with database().cursor() as cursor:
        rows: Rows = cursor.execute(relation, parameters).to_arrow_table().to_pylist()
        return rows


def rows_of_delta(table: DeltaTableSettings) -> Rows:
    """The rows of the newest version."""
    return query("SELECT * FROM delta_scan(?)", table.location)


def rows_of_iceberg(table: IcebergTableSettings) -> Rows:
    """The rows of the current snapshot, of a table whose catalog is in SQLite."""
    namespace, _, name = table.identifier.rpartition(".")
    found = rows_of_sqlite(
        Path(table.catalog_options["uri"].removeprefix("sqlite:///")),
        "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?",
        namespace,
        name,
    )
    (current,) = (row["metadata_location"] for row in found)
    return query("SELECT * FROM iceberg_scan(?)", current.removeprefix("file://"))


def rows_of_sqlite(path: Path, statement: str, *parameters: object) -> Rows:
    """The rows of a query by SQLite."""
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(statement, parameters)]


def rows_of_postgresql(server: PostgreSqlServer, database: str) -> Rows:
    """The rows of the table ``orders`` of a database."""
    from psycopg.rows import dict_row

    with closing(server.connect(database)) as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM orders").fetchall()


def rows_of_files(folder: Path) -> Rows:
    """The rows of the Parquet files of complete batches."""
    if not any(folder.glob("batch=*/**/*.parquet")):
        return []
    files = f"{folder}/batch=*/**/*.parquet"
    return query("SELECT * FROM read_parquet(?, hive_partitioning=false, union_by_name=true)", files)
