"""``to_delta``, ``to_iceberg``, ``to_sql`` and ``to_files``: the functions that programs call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from penstock import ConfigurationError, DataFrameStream, DStream
from penstock.spi import absolute_location
from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.sql_table import SqlTableSettings
from penstock_tables.table import Table
from penstock_tables.table_output import TableOutput
from penstock_tables.table_schemas import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: A schema as DDL text (``"id BIGINT, name STRING"``), as Spark's or as Arrow's.
Schema: TypeAlias = "str | StructType | pa.Schema"

_MB = 1 << 20


def to_delta(
    stream: DStream[Any] | DataFrameStream,
    table: str,
    *,
    name: str | None = None,
    schema: Schema | None = None,
    add_columns: bool = False,
    dead_letter: str | None = None,
    every: float | None = None,
    partition_by: Sequence[str] = (),
    target_file_mb: float = 16,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Append each batch to a Delta table once, in one transaction: an output operation.

    Args:
        stream: rows, mappings or tuples, with ``schema``; or DataFrames.
        table: path or URI; created with the first batch if it is missing.
        name: name of the output, by which a batch that runs again is recognized; by default the table's location. Two
            outputs of one program into one table need two names.
        schema: the columns of a stream of records. Without it, those that the stream's records have in Arrow.
        add_columns: whether columns that the table lacks are added to it; otherwise they fail the batch.
        dead_letter: folder for records that do not fit the table, as JSON lines with their reason; without it, they
            fail the batch.
        every: seconds: commit the batches of this period together, as one window of the stream; a multiple of the batch
            interval. Not for a stream of DataFrames, whose records are windowed before ``toDF``.
        partition_by: partition columns, if the table is created.
        target_file_mb: smaller files are avoided where a batch has enough data.
        storage_options: options of the object store, as for the package ``deltalake``. Secrets in them are saved in
            checkpoints: prefer the environment of driver and executors.

    Raises:
        ConfigurationError: a package is missing, or a value is not valid.
    """
    _require("deltalake", "delta")
    settings = DeltaTableSettings(table, tuple(partition_by), dict(storage_options or {}))
    _attach(stream, settings, name or settings.location, schema, add_columns, dead_letter, every, target_file_mb)


def to_iceberg(
    stream: DStream[Any] | DataFrameStream,
    table: str,
    *,
    name: str | None = None,
    schema: Schema | None = None,
    add_columns: bool = False,
    dead_letter: str | None = None,
    every: float | None = None,
    target_file_mb: float = 16,
    catalog: str = "default",
    catalog_options: Mapping[str, str] | None = None,
) -> None:
    """Append each batch to an Iceberg table once, in one snapshot: an output operation.

    Args:
        stream: rows, mappings or tuples, with ``schema``; or DataFrames.
        table: ``namespace.table``; created with the first batch if it is missing.
        name: name of the output, by which a batch that runs again is recognized; by default the table's name.
            Keep it when the program changes.
        schema: the columns of a stream of records. Without it, those that the stream's records have in Arrow.
        add_columns: whether columns that the table lacks are added to it; otherwise they fail the batch.
        dead_letter: folder for records that do not fit the table, as JSON lines with their reason; without it, they
            fail the batch.
        every: seconds: commit the batches of this period together, as one window of the stream; a multiple of the batch
            interval. Not for a stream of DataFrames, whose records are windowed before ``toDF``.
        target_file_mb: smaller files are avoided where a batch has enough data.
        catalog: name of the catalog in PyIceberg's configuration.
        catalog_options: properties of the catalog, beside those. Secrets in them are saved in checkpoints: prefer
            PyIceberg's configuration file or environment variables.

    Raises:
        ConfigurationError: a package is missing, or a value is not valid.
    """
    _require("pyiceberg", "iceberg")
    if "." not in table:
        raise ConfigurationError(f"an Iceberg table has a name such as 'shop.orders', not {table!r}")
    settings = IcebergTableSettings(table, catalog, dict(catalog_options or {}))
    _attach(stream, settings, name or table, schema, add_columns, dead_letter, every, target_file_mb)


def to_sql(
    stream: DStream[Any] | DataFrameStream,
    url: str,
    table: str,
    *,
    name: str | None = None,
    schema: Schema | None = None,
    add_columns: bool = False,
    dead_letter: str | None = None,
    every: float | None = None,
    password: str | None = None,
) -> None:
    """Insert each batch into a table of a database once, in one transaction of one task: an output operation.

    Args:
        stream: rows, mappings or tuples, with ``schema``; or DataFrames.
        url: SQLAlchemy's URL without a password, such as ``postgresql+psycopg://writer@db.example/shop``.
        table: name of the table; created with the first batch if it is missing.
        name: name of the output, by which a batch that runs again is recognized; by default the table's name.
            Keep it when the program changes.
        schema: the columns of a stream of records. Without it, those that the stream's records have in Arrow.
        add_columns: whether columns that the table lacks are added to it; otherwise they fail the batch.
        dead_letter: folder for records that do not fit the table, as JSON lines with their reason; without it, they
            fail the batch.
        every: seconds: commit the batches of this period together, as one window of the stream; a multiple of the batch
            interval. Not for a stream of DataFrames, whose records are windowed before ``toDF``.
        password: ``env:NAME`` or ``file:PATH``, read on the driver and in tasks.

    Raises:
        ConfigurationError: a package is missing, or a value is not valid.
    """
    _require("sqlalchemy", "sql")
    settings = SqlTableSettings(url, table, password)
    _attach(stream, settings, name or table, schema, add_columns, dead_letter, every, 16)


def to_files(
    stream: DStream[Any] | DataFrameStream,
    path: str,
    *,
    format: Literal["parquet", "csv"] = "parquet",
    name: str | None = None,
    schema: Schema | None = None,
    add_columns: bool = False,
    dead_letter: str | None = None,
    every: float | None = None,
    partition_by: Sequence[str] = (),
    target_file_mb: float = 16,
) -> None:
    """Write each batch once into a folder of its own, ``batch=<batch time>``, which appears whole: an output operation.

    Args:
        stream: rows, mappings or tuples, with ``schema``; or DataFrames.
        path: path or URI of the folder, which belongs to this output.
        format: ``parquet`` or ``csv``.
        name: name of the output, by which a batch that runs again is recognized; by default the folder's location.
            Keep it when the program changes.
        schema: the columns of a stream of records. Without it, those that the stream's records have in Arrow.
        add_columns: whether columns that the table lacks are added to it; otherwise they fail the batch.
        dead_letter: folder for records that do not fit the table, as JSON lines with their reason; without it, they
            fail the batch.
        every: seconds: commit the batches of this period together, as one window of the stream; a multiple of the batch
            interval. Not for a stream of DataFrames, whose records are windowed before ``toDF``.
        partition_by: columns whose values become folders, as in ``batch=…/day=2024-05-01/``.
        target_file_mb: smaller files are avoided where a batch has enough data.

    Raises:
        ConfigurationError: a value is not valid.
    """
    if format not in ("parquet", "csv"):
        raise ConfigurationError(f"to_files writes the formats 'parquet' and 'csv', not {format!r}")
    settings = FileTableSettings(path, format, tuple(partition_by))
    _attach(stream, settings, name or settings.location, schema, add_columns, dead_letter, every, target_file_mb)


def _attach(
    stream: DStream[Any] | DataFrameStream,
    table: Table,
    name: str,
    schema: Schema | None,
    add_columns: bool,
    dead_letter: str | None,
    every: float | None,
    target_file_mb: float,
) -> None:
    if not target_file_mb > 0:
        raise ConfigurationError(f"target_file_mb is a size in MB above 0, not {target_file_mb!r}")
    columns = None if schema is None else arrow_schema(schema)
    location = None if dead_letter is None else absolute_location(dead_letter)
    output = TableOutput(table, name, columns, add_columns, location, round(target_file_mb * _MB))
    if isinstance(stream, DataFrameStream):
        if columns is not None:
            raise ConfigurationError("a stream of DataFrames has a schema: select and cast columns there")
        if every is not None:
            raise ConfigurationError(
                f"every={every:g} needs a stream of records: call window({every:g}, {every:g}) on it before toDF"
            )
        stream.foreachBatch(output.write_frame)
        return
    if every is not None:
        stream = stream.window(every, every)
    if columns is None:
        stream.toDF().foreachBatch(output.write_frame)
    else:
        stream.foreachRDD(output.write_records)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Turn a schema in any of its forms into Arrow's."""
    if isinstance(schema, pa.Schema):
        return schema
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(struct, StructType):
        raise ConfigurationError(
            f"schema is DDL text such as 'id BIGINT, name STRING', a StructType or a pyarrow.Schema, not {schema!r}"
        )
    return arrow_schema_of(struct)


def _require(package: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ConfigurationError(f'to_{extra} needs the package {package}: pip install "penstock-tables[{extra}]"')
