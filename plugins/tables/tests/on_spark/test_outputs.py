"""The four outputs in a program, from records and from DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from plugins.tables.tests.independent_readers import rows_of_sqlite
from plugins.tables.tests.kind_of_table import Kind, ordered

from penstock import ConfigurationError, OutputOperationCompleted, StreamingContext, StreamingListener
from penstock_tables import to_delta, to_files, to_iceberg, to_sql
from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.sql_table import SqlTableSettings

pytestmark = pytest.mark.spark

DDL = "key STRING, n BIGINT"


class Written(StreamingListener):
    """The rows that events say were written, by table."""

    def __init__(self) -> None:
        self.rows = Counter[str]()

    def onOutputOperationCompleted(self, outputOperationCompleted: OutputOperationCompleted) -> None:
        metadata = outputOperationCompleted.outputOperationInfo.metadata
        if metadata:
            self.rows[metadata["table"]] += metadata["rows"]


@pytest.mark.usefixtures("frugal_plans")
def test_each_output_writes_records_and_dataframes(
    ssc: StreamingContext, tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    kinds = {name: Kind(name, tmp_path) for name in ("delta", "iceberg", "sql", "files")}
    batches: list[list[Any]] = [[("a", 1), ("b", 2)], [("c", 3)], [("d", 4), {"key": "e", "n": 5}]]
    records = ssc.queueStream(batches)
    frames = records.filter(lambda record: isinstance(record, tuple)).toDF(DDL)
    delta, iceberg, sql, files = (kinds[name].table for name in ("delta", "iceberg", "sql", "files"))
    assert isinstance(delta, DeltaTableSettings)
    assert isinstance(iceberg, IcebergTableSettings)
    assert isinstance(sql, SqlTableSettings)
    assert isinstance(files, FileTableSettings)
    to_delta(records, delta.location, schema=DDL)
    to_iceberg(frames, iceberg.identifier, catalog=iceberg.catalog, catalog_options=iceberg.catalog_options)
    to_sql(records, sql.url, sql.table, schema=DDL)
    frames_table = SqlTableSettings(sql.url, "frames")
    to_sql(frames.where("n < 4"), frames_table.url, frames_table.table)
    to_files(frames.where("n > 1"), files.location)
    written = Written()
    ssc.addStreamingListener(written)
    ssc.start()
    rows = ordered([{"key": key, "n": n} for key, n in zip("abcde", range(1, 6), strict=True)])
    expected = {"delta": rows, "sql": rows, "iceberg": rows[:-1], "files": rows[1:-1]}

    def are_written() -> bool:
        written = {name: kinds[name].rows() for name in kinds if (tmp_path / "files").exists()}
        return written == expected

    wait_for(are_written, "all rows in all tables")
    tables = {kinds[name].table.name: len(expected[name]) for name in kinds} | {frames_table.name: 3}
    wait_for(lambda: written.rows == tables, "the metadata of the outputs")
    assert ordered(rows_of_sqlite(tmp_path / "shop.db", "SELECT * FROM frames")) == rows[:3]


@pytest.mark.usefixtures("frugal_plans")
def test_instants_are_written_from_records_and_dataframes(
    ssc: StreamingContext, tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    at = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)  # noqa: UP017  # the name that 3.11's docs use
    records = ssc.queueStream([[("a", at)]])
    schema = "key STRING, at TIMESTAMP"
    folders = [str(tmp_path / name) for name in ("records", "frames")]
    to_delta(records, folders[0], schema=schema)
    to_delta(records.toDF(schema), folders[1])
    ssc.start()

    def rows(folder: str) -> list[dict[str, Any]]:
        return DeltaTable(folder).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(folder) else []

    wait_for(lambda: all(rows(folder) for folder in folders), "a row in both tables")
    assert [rows(folder) for folder in folders] == [[{"key": "a", "at": at}]] * 2


def test_mistakes_are_refused_where_the_output_is_defined(ssc: StreamingContext, tmp_path: Path) -> None:
    records = ssc.queueStream([[("a", 1)]])
    with pytest.raises(ConfigurationError, match="contains a password, which would be saved in checkpoints"):
        to_sql(records, "postgresql://me:secret@host/shop", "orders", schema=DDL)
    with pytest.raises(ConfigurationError, match="'env:NAME' or 'file:PATH', not the password itself") as refused:
        to_sql(records, "postgresql://me@host/shop", "orders", schema=DDL, password="secret")
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"a name such as 'shop\.orders', not 'orders'"):
        to_iceberg(records, "orders", schema=DDL)
    with pytest.raises(ConfigurationError, match="'parquet' and 'csv', not 'orc'"):
        to_files(records, str(tmp_path), format="orc", schema=DDL)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="select and cast columns there"):
        to_files(records.toDF(DDL), str(tmp_path), schema=DDL)
    with pytest.raises(ConfigurationError, match=r"call window\(60, 60\) on it before toDF"):
        to_files(records.toDF(DDL), str(tmp_path), every=60)
