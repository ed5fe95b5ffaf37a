"""The files of tables: partition columns, CSV, the size of files, and leftovers of interrupted attempts."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from plugins.tables.tests.independent_readers import Rows, query
from plugins.tables.tests.kind_of_table import Kind, ordered, task
from plugins.tables.tests.test_table_output import FIRST, SCHEMA, as_rows, batch, output, records

from penstock import ConfigurationError
from penstock_tables import TableSchemaError, TableWriteError
from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.partition_writer import PartitionWriter, located
from penstock_tables.table import Table

DAYS = pa.schema([("day", pa.date32()), ("shop", pa.string()), ("n", pa.int64())])
MAY = datetime.date(2026, 5, 1)
# Values that are no folder names as they are.
ODD: list[tuple[datetime.date | None, str | None, int]] = [
    (MAY, "north", 1),
    (MAY, "north", 2),
    (MAY, "a/b=c d%20é", 3),
    (None, "", 4),
    (MAY, None, 5),
]


def expected() -> Rows:
    return ordered({"day": day, "shop": shop, "n": n} for day, shop, n in ODD)


def test_delta_table_is_partitioned_as_asked(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    table = DeltaTableSettings(str(tmp_path / "table"), ("day", "shop"))
    for number in range(2):
        output(table).write(batch(number), DAYS, task(ODD))
    written = DeltaTable(table.location)
    assert written.metadata().partition_columns == ["day", "shop"]
    # Delta has no empty text among its partition values: it is null.
    rows = ordered({**row, "shop": row["shop"] or None} for row in expected())
    assert ordered(written.to_pyarrow_table().select(DAYS.names).to_pylist()) == ordered(2 * rows)
    assert written.to_pyarrow_table(filters=[("shop", "=", "north")])["n"].to_pylist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("rule", "of_column"),
    [
        ("delta.constraints.positive", False),
        ("delta.columnMapping.mode", False),
        ("delta.generationExpression", True),
        ("delta.identity.start", True),
    ],
)
def test_delta_table_whose_rules_nobody_would_apply_is_refused(rule: str, of_column: bool, tmp_path: Path) -> None:
    kind = Kind("delta", tmp_path)
    output(kind.table).write(batch(0), SCHEMA, task([]))
    log = tmp_path / "delta" / "_delta_log"
    created = [json.loads(line) for line in next(log.glob("*0.json")).read_text().splitlines()]
    (metadata,) = (action["metaData"] for action in created if "metaData" in action)
    columns = json.loads(metadata["schemaString"])
    (columns["fields"][1]["metadata"] if of_column else metadata["configuration"])[rule] = "name"
    (log / f"{1:020}.json").write_text(json.dumps({"metaData": {**metadata, "schemaString": json.dumps(columns)}}))
    with pytest.raises(ConfigurationError, match=rf"to_delta does not apply: {rule}.*Spark"):
        output(kind.table).write(batch(1), SCHEMA, task(records(1)))


def test_delta_table_with_a_feature_that_delta_rs_lacks_is_refused_at_once(tmp_path: Path) -> None:
    kind = Kind("delta", tmp_path)
    output(kind.table).write(batch(0), SCHEMA, task([]))
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering", "domainMetadata"]}
    log = tmp_path / "delta" / "_delta_log" / f"{1:020}.json"
    log.write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(
        TableWriteError, match=r"batch .* not written to Delta table .*Unsupported.*Clustered"
    ) as failed:
        output(kind.table).write(batch(1), SCHEMA, task(records(1)))
    assert "another writer" not in str(failed.value)


def test_files_are_in_folders_of_their_values(tmp_path: Path) -> None:
    table = FileTableSettings(str(tmp_path / "table"), "parquet", ("day", "shop"))
    output(table).write(batch(0), DAYS, task(ODD))
    folder = tmp_path / "table" / f"batch={FIRST.time_ms}"
    assert sorted(path.name for path in folder.iterdir()) == ["day=2026-05-01", "day=__HIVE_DEFAULT_PARTITION__"]
    read = f"SELECT day::DATE AS day, shop, n FROM read_parquet('{folder}/**/*.parquet', hive_partitioning=true)"
    assert ordered(query(read)) == expected()


def test_iceberg_table_with_identity_partitions_keeps_them(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    kind = Kind("iceberg", tmp_path)
    assert isinstance(kind.table, IcebergTableSettings)
    output(kind.table).write(batch(0), DAYS, task([]))
    catalog = load_catalog("test", **kind.table.catalog_options)
    created = catalog.load_table(kind.table.identifier)
    columns = created.schema()
    fields = [
        PartitionField(columns.find_field(name).field_id, 1000 + number, IdentityTransform(), name)
        for number, name in enumerate(("day", "shop"))
    ]
    catalog.drop_table(kind.table.identifier)
    catalog.create_table(kind.table.identifier, created.schema(), partition_spec=PartitionSpec(*fields))
    for number in range(2):
        output(kind.table).write(batch(number), DAYS, task(ODD))
    assert kind.rows() == ordered(2 * expected())
    scan = catalog.load_table(kind.table.identifier).scan("shop = 'north'")
    assert sorted(scan.to_arrow()["n"].to_pylist()) == [1, 1, 2, 2]


def test_iceberg_table_with_other_partitions_is_refused(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    kind = Kind("iceberg", tmp_path)
    assert isinstance(kind.table, IcebergTableSettings)
    output(kind.table).write(batch(0), DAYS, task([]))
    created = load_catalog("test", **kind.table.catalog_options).load_table(kind.table.identifier)
    with created.update_spec() as update:
        update.add_field("day", "month", "month")
    with pytest.raises(ConfigurationError, match=r"partitioned by month.*identity"):
        output(kind.table).write(batch(1), DAYS, task(ODD))


@pytest.mark.parametrize("table", [DeltaTableSettings, FileTableSettings])
def test_a_partition_column_that_the_batch_lacks_is_refused(table: type[Table], tmp_path: Path) -> None:
    partitioned = table(str(tmp_path / "table"), partition_by=("month",))  # type: ignore[call-arg]
    with pytest.raises(TableSchemaError, match=r"partition_by.*'month'.*\['key', 'n'\]"):
        output(partitioned).write(batch(0), SCHEMA, task(records(0)))


def test_csv_files_have_a_header_and_survive_a_repetition(tmp_path: Path) -> None:
    table = FileTableSettings(str(tmp_path / "table"), "csv", ("n",))
    odd = [('quote " and, comma', 1), ("two\nlines", 2), ("é", 1)]
    for _attempt in range(2):
        output(table).write(batch(0), SCHEMA, task(odd))
    output(table).write(batch(1), SCHEMA, task(records(1)))
    read = f"SELECT key, n::BIGINT AS n FROM read_csv('{tmp_path}/table/batch=*/**/*.csv', hive_partitioning=true)"
    assert ordered(query(read)) == ordered([*({"key": key, "n": n} for key, n in odd), *as_rows(1)])


def test_an_interrupted_attempt_leaves_nothing_beside_the_batch(tmp_path: Path) -> None:
    table = FileTableSettings(str(tmp_path / "table"))

    class Interrupted(BaseException):
        """The process ends."""

    def run(writer: PartitionWriter) -> list[str]:
        task(records(0))(writer)
        raise Interrupted

    for _attempt in range(2):
        with pytest.raises(Interrupted):
            output(table).write(batch(0), SCHEMA, run)
    staged = tmp_path / "table" / "_penstock" / "staged"
    assert len(list(staged.iterdir())) == 2
    output(table).write(batch(0), SCHEMA, task(records(0)))
    assert list(staged.iterdir()) == []
    (manifest,) = (tmp_path / "table" / "_penstock" / "manifests").glob("*/*/*.json")
    listed = [tmp_path / "table" / file["path"] for file in json.loads(manifest.read_text())["files"]]
    assert sorted((tmp_path / "table").glob("batch=*/*")) == sorted(listed)


class Killed(BaseException):
    """The process ends."""


def test_a_commit_that_an_older_run_did_not_finish_is_finished_by_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Kind("files", tmp_path)

    def killed(*_arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        # After the manifest and before the rename.
        patched.setattr("penstock_tables.file_table.OpenFileTable._complete", killed)
        with pytest.raises(Killed):
            output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    assert kind.rows() == []
    output(kind.table).write(batch(1, run="run-2"), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_attempts_of_refused_runs_are_deleted(tmp_path: Path) -> None:
    kind = Kind("files", tmp_path)

    def killed(writer: PartitionWriter) -> list[str]:
        task(records(1))(writer)
        raise Killed

    output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    with pytest.raises(Killed):
        output(kind.table).write(batch(1), SCHEMA, killed)
    fresh = output(kind.table)
    # With its first commit it becomes the newest writer.
    for number in (2, 3):
        fresh.write(batch(number, run="run-2"), SCHEMA, task(records(number)))
    assert list((tmp_path / "files" / "_penstock" / "staged").iterdir()) == []
    assert kind.rows() == as_rows(0, 2, 3)


def test_the_run_of_a_number_is_read_again_after_its_store_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Kind("files", tmp_path)
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))
    monkeypatch.setattr("penstock_tables.file_table._runs_read", {})
    runs = tmp_path / "files" / "_penstock" / "runs" / "000001"
    saved = runs.read_bytes()
    system, path = located(str(tmp_path / "files"))

    class Away:
        """The store goes away between a look at the folder and the file."""

        def __getattr__(self, name: str) -> object:
            return getattr(system, name)

        def get_file_info(self, selector: object) -> object:
            found = system.get_file_info(selector)
            runs.unlink(missing_ok=True)
            return found

    with monkeypatch.context() as patched:
        patched.setattr("penstock_tables.file_table.located", lambda _location: (Away(), path))
        opened = kind.table.open(None)
    with pytest.raises(FileNotFoundError, match="is its store mounted"):
        opened.standing(batch(1))
    runs.write_bytes(saved)
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert sorted(path.name for path in (tmp_path / "files").glob("batch=*")) == [
        f"batch={batch(number).time_ms}" for number in (0, 1)
    ]


def test_small_arrow_batches_become_one_row_group(tmp_path: Path) -> None:
    from pyarrow import parquet

    def run(writer: PartitionWriter) -> list[str]:
        rows = pa.table({"key": [str(n) for n in range(100)], "n": range(100)})
        files = writer.write_batches(rows.to_batches(10))
        return [file for batch in files for file in batch.column(0).to_pylist()]

    output(FileTableSettings(str(tmp_path / "table"))).write(batch(0), SCHEMA, run)
    (file,) = (tmp_path / "table").glob("batch=*/*.parquet")
    assert (parquet.ParquetFile(file).num_row_groups, parquet.read_table(file).num_rows) == (1, 100)


def test_a_batch_of_the_size_of_the_last_one_gets_fitting_files(tmp_path: Path) -> None:
    writes = output(FileTableSettings(str(tmp_path / "table")), target_bytes=1 << 20)
    # Only Spark's jobs show the number of partitions.
    assert writes._partitions() is None
    writes.write(batch(0), SCHEMA, task(records(0)))
    assert writes._partitions() == 1


TYPES = pa.schema(
    [
        ("text", pa.string()),
        ("count", pa.int64()),
        ("share", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("paid", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
    ]
)


@pytest.mark.parametrize("name", ["delta", "iceberg", "files"])
def test_each_type_comes_back_from_readers_of_other_make(name: str, tmp_path: Path) -> None:
    kind = Kind(name, tmp_path)
    now = datetime.datetime(2026, 5, 1, 12, 30, 0, 5, datetime.UTC)
    full = ("pen", 2**40, 0.25, Decimal("12.50"), True, now.date(), now, b"\x00\xff", ["a", None])
    rows = [full, (None,) * len(TYPES)]
    output(kind.table).write(batch(0), TYPES, task(rows))
    expected = ordered(dict(zip(TYPES.names, row, strict=True)) for row in rows)
    assert kind.rows() == expected
    assert ordered(read_by_library(kind)) == expected


def read_by_library(kind: Kind) -> Rows:
    """The rows as the format's own library reads them."""
    read: pa.Table
    match kind.table:
        case DeltaTableSettings():
            from deltalake import DeltaTable

            read = DeltaTable(kind.table.location).to_pyarrow_table()
        case IcebergTableSettings():
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog("test", **kind.table.catalog_options)
            read = catalog.load_table(kind.table.identifier).scan().to_arrow()
        case _:
            from pyarrow import dataset

            read = dataset.dataset(sorted(map(str, kind.folder.glob("files/batch=*/*")))).to_table()
    rows: Rows = read.to_pylist()
    return rows
