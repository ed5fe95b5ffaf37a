"""Batches written into real tables of each kind, without Spark: retries, lost answers, competing writers, schemas."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from attrs import evolve
from plugins.tables.tests.independent_readers import Rows
from plugins.tables.tests.kind_of_table import KINDS, Kind, ordered, task

from penstock_tables import (
    CommitConflictError,
    OutputOwnedError,
    RowsRefusedError,
    TableSchemaError,
    TableWriteError,
)
from penstock_tables.batch_identity import BatchId
from penstock_tables.delta_table import DeltaTableSettings
from penstock_tables.demo import TableOfLines
from penstock_tables.file_table import FileTableSettings
from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.sql_table import SqlTableSettings, engine_of
from penstock_tables.table import Commit, OpenTable, Table
from penstock_tables.table_output import TableOutput

SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64())])
FIRST = BatchId("shop", "orders", "run-1", 1_700_000_000_000)
INTERVAL_MS = 1000


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(request.param, tmp_path)


def batch(number: int, **changes: Any) -> BatchId:
    return evolve(FIRST, time_ms=FIRST.time_ms + number * INTERVAL_MS, **changes)


def records(number: int, count: int = 3) -> list[Any]:
    return [(f"{number}-{index}", index) for index in range(count)]


def as_rows(*numbers: int) -> Rows:
    return ordered({"key": key, "n": n} for number in numbers for key, n in records(number))


def output(table: Table, **options: Any) -> TableOutput:
    return TableOutput(table, "orders", SCHEMA, **options)


def test_batches_are_appended_in_order_and_once(kind: Kind) -> None:
    writes = output(kind.table)
    for number in (0, 1, 1, 0, 2, 2):
        writes.write(batch(number), SCHEMA, task(records(number)))
    assert kind.rows() == as_rows(0, 1, 2)


def test_a_batch_older_than_the_last_one_is_written_if_it_is_missing(kind: Kind) -> None:
    writes = output(kind.table)
    for number in (0, 2, 1, 1, 2):
        writes.write(batch(number), SCHEMA, task(records(number)))
    assert kind.rows() == as_rows(0, 1, 2)


def test_a_recovered_program_recognizes_the_batches_of_its_run(kind: Kind) -> None:
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    recovered = output(kind.table)
    recovered.write(batch(0), SCHEMA, task(records(0)))
    recovered.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_a_fresh_run_continues_an_old_table_also_with_older_batch_times(kind: Kind) -> None:
    output(kind.table).write(batch(5), SCHEMA, task(records(5)))
    fresh = output(kind.table)
    fresh.write(batch(3, run="run-2"), SCHEMA, task(records(3)))
    fresh.write(batch(5, run="run-2"), SCHEMA, task(records(6)))
    assert kind.rows() == as_rows(3, 5, 6)


def test_of_two_programs_of_one_name_the_older_one_is_refused(kind: Kind) -> None:
    older, newer = output(kind.table), output(kind.table)
    older.write(batch(0), SCHEMA, task(records(0)))
    newer.write(batch(0, run="run-2"), SCHEMA, task(records(1)))
    with pytest.raises(OutputOwnedError, match=r"'orders' of application 'shop' .* has a newer writer .*another name="):
        older.write(batch(1), SCHEMA, task(records(2)))
    newer.write(batch(1, run="run-2"), SCHEMA, task(records(3)))
    assert kind.rows() == as_rows(0, 1, 3)


def test_of_two_programs_that_start_together_one_is_refused(kind: Kind) -> None:
    first, second = output(kind.table), output(kind.table)

    def run(writer: PartitionWriter) -> list[str]:
        # The other program looks and commits between the look and the commit of this one.
        second.write(batch(0, run="run-2"), SCHEMA, task(records(2)))
        return task(records(1))(writer)

    numbers = [1]
    try:
        first.write(batch(0), SCHEMA, run)
    except OutputOwnedError:
        # A task that commits cannot get another number.
        numbers = []
    refused = list[TableOutput]()
    for later, (writes, run_id) in enumerate([(first, "run-1"), (second, "run-2")] * 2, 1):
        try:
            writes.write(batch(later, run=run_id), SCHEMA, task([]))
        except OutputOwnedError:
            refused.append(writes)
    assert refused in ([first] * 2, [second] * 2)
    assert kind.rows() == as_rows(*numbers, 2)


@pytest.mark.parametrize("name", ["delta", "iceberg", "sql"])
def test_several_outputs_of_different_names_share_a_table(name: str, tmp_path: Path) -> None:
    kind = Kind(name, tmp_path)
    for other in ("orders", "returns"):
        output(kind.table).write(batch(0, output=other), SCHEMA, task(records(len(other))))
    assert kind.rows() == as_rows(6, 7)


def test_a_batch_without_records_commits_nothing_and_a_new_table_has_the_columns(kind: Kind) -> None:
    output(kind.table).write(batch(0), SCHEMA, task([]))
    assert kind.rows() == []
    assert kind.table.open(None).schema().names == ["key", "n"]


class Unreliable(Table):
    """A table whose commits fail: before they take effect, or after."""

    def __init__(self, table: Table, failures: Iterator[str]) -> None:
        self._table = table
        self._failures = failures
        self.commits_in_task = table.commits_in_task

    @property
    def name(self) -> str:
        return self._table.name

    def open(self, schema: pa.Schema | None) -> OpenTable:
        opened = self._table.open(schema)
        add = opened.commit

        def fail(commit: Commit) -> None:
            failure = next(self._failures, "")
            if failure == "before":
                raise OSError("connection refused")
            add(commit)
            if failure == "after":
                raise OSError("connection reset")

        opened.commit = fail  # type: ignore[method-assign]
        return opened


@pytest.mark.parametrize("name", ["delta", "iceberg", "files"])
def test_a_commit_whose_answer_is_lost_is_recognized(name: str, tmp_path: Path) -> None:
    kind = Kind(name, tmp_path)
    writes = output(Unreliable(kind.table, iter(["after", "before"])))
    writes.write(batch(0), SCHEMA, task(records(0)))
    with pytest.raises(TableWriteError, match="refused"):
        writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0)
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_commit_after_another_writer_looks_again(name: str, tmp_path: Path) -> None:
    kind = Kind(name, tmp_path)
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))

    class Overtaken(Unreliable):
        """Another program commits between the look and the commit."""

        def open(self, schema: pa.Schema | None) -> OpenTable:
            opened = self._table.open(schema)
            for overtaking in self._failures:
                output(self._table).write(batch(1, output=overtaking), SCHEMA, task(records(4)))
                break
            return opened

    output(Overtaken(kind.table, iter(["returns"]))).write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1, 4)


def test_of_two_drivers_of_one_run_only_one_adds_a_batch(kind: Kind) -> None:
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))

    def run(writer: PartitionWriter) -> list[str]:
        # The other driver is faster.
        output(kind.table).write(batch(1), SCHEMA, task(records(1)))
        return task(records(1))(writer)

    output(kind.table).write(batch(1), SCHEMA, run)
    assert kind.rows() == as_rows(0, 1)


class Simultaneous(Unreliable):
    """Another driver of the run commits each batch after the last look and before the commit."""

    def open(self, schema: pa.Schema | None) -> OpenTable:
        opened = self._table.open(schema)
        add = opened.commit

        def commit_second(commit: Commit) -> None:
            output(self._table).write(commit.batch, SCHEMA, task(records(1)))
            add(commit)

        opened.commit = commit_second  # type: ignore[method-assign]
        return opened


@pytest.mark.parametrize("name", ["delta", "iceberg", "files"])
def test_of_two_drivers_that_commit_at_once_one_adds_the_batch(name: str, tmp_path: Path) -> None:
    kind = Kind(name, tmp_path)
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    output(Simultaneous(kind.table, iter(()))).write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_two_drivers_of_one_run_write_the_same_batches_side_by_side(kind: Kind) -> None:
    def drive() -> None:
        writes = output(kind.table)
        for number in range(1, 5):
            writes.write(batch(number), SCHEMA, task(records(number)))

    # The table's first batch creates it.
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    with ThreadPoolExecutor(2) as drivers:
        for driver in [drivers.submit(drive) for _ in range(2)]:
            driver.result()
    assert kind.rows() == as_rows(0, 1, 2, 3, 4)


def test_a_commit_that_is_always_overtaken_names_table_batch_and_remedy(tmp_path: Path) -> None:
    kind = Kind("files", tmp_path)

    class Overtaken(Unreliable):
        def open(self, schema: pa.Schema | None) -> OpenTable:
            opened = self._table.open(schema)

            def conflict(commit: Commit) -> None:
                raise CommitConflictError("version 7 exists")

            opened.commit = conflict  # type: ignore[method-assign]
            return opened

    advice = rf"batch {FIRST.time_ms} of output 'orders' .* not written to folder .*: version 7 exists\. .*every="
    with pytest.raises(CommitConflictError, match=advice):
        output(Overtaken(kind.table, iter(()))).write(batch(0), SCHEMA, task(records(0)))
    assert kind.rows() == []


def test_a_failed_commit_names_table_batch_and_remedy(kind: Kind) -> None:
    def run(_writer: PartitionWriter) -> list[str]:
        raise ConnectionResetError("the store is away")

    advice = rf"batch {FIRST.time_ms} of output 'orders' .* not written to .*: ConnectionResetError: the store is away"
    with pytest.raises(TableWriteError, match=f"{advice}.*onFailedBatch=retry"):
        output(kind.table).write(batch(0), SCHEMA, run)


def test_a_batch_is_written_although_its_task_lost_the_answer(tmp_path: Path) -> None:
    kind = Kind("sql", tmp_path)

    def run(writer: PartitionWriter) -> list[str]:
        task(records(0))(writer)
        raise ConnectionResetError("the executor is lost")

    output(kind.table).write(batch(0), SCHEMA, run)
    assert kind.rows() == as_rows(0)


def test_records_that_do_not_fit_fail_the_batch_and_leave_the_table(kind: Kind) -> None:
    writes = output(kind.table)
    wrong = [*records(0), ("a", "many"), ("b",), {"key": "c", "n": 1, "extra": 2}]
    with pytest.raises(RowsRefusedError, match=r"do not fit the table: .*dead_letter="):
        writes.write(batch(0), SCHEMA, task(wrong, partitions=1))
    assert kind.rows() == []


def test_records_that_do_not_fit_go_to_the_dead_letters_with_their_reason(kind: Kind, tmp_path: Path) -> None:
    writes = output(kind.table, dead_letter=str(tmp_path / "dead"))
    wrong: list[Any] = [("a", "many"), ("b",), {"key": "c", "n": 1, "extra": 2}, ("d", 2**80)]
    for _attempt in range(2):
        writes.write(batch(0), SCHEMA, task([*records(0), *wrong], partitions=1))
    assert kind.rows() == as_rows(0)
    (letters,) = (tmp_path / "dead").glob("*/*")
    lines = [json.loads(line) for line in letters.read_text().splitlines()]
    assert {json.dumps(line["record"]) for line in lines} == {
        json.dumps(record)
        for record in (
            ["b"],
            *({"key": k, "n": n} for k, n in (("a", "many"), ("d", 2**80))),
            {"key": "c", "n": 1, "extra": 2},
        )
    }
    assert all(line["batch_time"] == FIRST.time_ms and line["reason"] for line in lines)


@pytest.mark.parametrize("name", ["delta", "files"])
def test_dead_letters_of_an_attempt_with_other_partitions_are_replaced(name: str, tmp_path: Path) -> None:
    kind = Kind(name, tmp_path)
    table, dead = Unreliable(kind.table, iter(["before"])), tmp_path / "dead"
    writes = output(table, dead_letter=str(dead))
    wrong = [("a", "many"), ("b", "more"), ("c", "most"), *records(0)]
    with pytest.raises(TableWriteError, match="refused"):
        writes.write(batch(0), SCHEMA, task(wrong, partitions=3))
    writes.write(batch(0), SCHEMA, task(wrong, partitions=1))
    (letters,) = dead.glob("*/*")
    assert len(letters.read_text().splitlines()) == 3
    assert kind.rows() == as_rows(0)


def test_columns_are_added_when_allowed_and_refused_otherwise(kind: Kind) -> None:
    wider = pa.schema([*SCHEMA, ("price", pa.float64())])
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    more = [("x", 1, 2.5)]
    with pytest.raises(TableSchemaError, match=r"no column 'price': select the others, or set add_columns=True"):
        output(kind.table).write(batch(1), wider, task(more))
    output(kind.table, adds_columns=True).write(batch(1), wider, task(more))
    assert {"key": "x", "n": 1, "price": 2.5} in kind.rows()
    assert len(kind.rows()) == 4


def test_another_type_is_refused_before_anything_is_written(kind: Kind) -> None:
    output(kind.table).write(batch(0), SCHEMA, task(records(0)))
    other = pa.schema([("key", pa.string()), ("n", pa.string())])
    with pytest.raises(TableSchemaError, match=r"column 'n' is string in the batch and \w+ in the table"):
        output(kind.table).write(batch(1), other, task([]))


def test_a_missing_table_without_a_schema_is_refused(kind: Kind) -> None:
    with pytest.raises(TableSchemaError, match=r"give schema="):
        output(kind.table).write(batch(0), None, task([]))


LOCAL_KINDS = ("delta", "iceberg", "files")


@pytest.mark.parametrize("name", KINDS)
def test_a_table_whose_store_is_away_is_not_created_anew(name: str, tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    store.mkdir()
    kind = Kind(name, store)
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))
    if isinstance(kind.table, SqlTableSettings):
        # An open connection would reach the database where it is now.
        engine_of(kind.table).dispose()
    store.rename(away)
    # As the place where a disk was mounted.
    store.mkdir()
    (store / "warehouse").mkdir()
    with pytest.raises(TableWriteError, match=r"batch .* not written: .* into which .* has written before, is missing"):
        writes.write(batch(1), SCHEMA, task(records(1)))
    if isinstance(kind.table, SqlTableSettings):
        engine_of(kind.table).dispose()
    shutil.rmtree(store)
    away.rename(store)
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


@pytest.mark.parametrize("name", LOCAL_KINDS)
def test_a_store_that_goes_away_while_tasks_run_fails_the_batch(name: str, tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    store.mkdir()
    kind = Kind(name, store)
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))

    def run(writer: PartitionWriter) -> list[str]:
        store.rename(away)
        store.mkdir()
        return task(records(1))(writer)

    with pytest.raises(TableWriteError, match=r"is missing on .*: is its store mounted"):
        writes.write(batch(1), SCHEMA, run)
    shutil.rmtree(store)
    away.rename(store)
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


@pytest.mark.parametrize("name", ["delta", "files"])
def test_a_commit_into_the_empty_place_of_a_store_fails_the_batch(name: str, tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    store.mkdir()
    kind = Kind(name, store)
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))

    def run(writer: PartitionWriter) -> list[str]:
        files = task(records(1))(writer)
        store.rename(away)
        shutil.copytree(away, store)
        return files

    with pytest.raises(TableWriteError, match=r"has written before, is missing"):
        writes.write(batch(1), SCHEMA, run)
    shutil.rmtree(store)
    away.rename(store)
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_what_was_written_is_described(kind: Kind) -> None:
    writes = output(kind.table)
    written = writes.write(batch(0), SCHEMA, task(records(0)))
    assert (written["table"], written["rows"], written["refused_rows"]) == (kind.table.name, 3, 0)
    assert min(written["tasks_seconds"], written["commit_seconds"], written["bytes"]) >= 0
    assert writes.write(batch(0), SCHEMA, task(records(0))).keys() <= {"table", "dataset"}
    assert written.get("dataset", "") == kind.table.dataset


@pytest.mark.parametrize(
    ("table", "dataset"),
    [
        (DeltaTableSettings("s3://lake/orders"), "s3://lake/orders"),
        (FileTableSettings("/data/orders"), "file:/data/orders"),
        (IcebergTableSettings("shop.orders"), ""),
        (SqlTableSettings("sqlite:////data/shop.db", "orders"), "sqlite:/data/shop.db.orders"),
        (
            SqlTableSettings("postgresql+psycopg://me@db:5433/shop", "public.orders"),
            "postgres://db:5433/shop.public.orders",
        ),
        (SqlTableSettings("mysql://db/shop", "orders"), "mysql://db/shop.orders"),
    ],
    ids=repr,
)
def test_dataset_is_named_for_lineage_without_its_user(table: Table, dataset: str) -> None:
    assert table.dataset == dataset


def test_a_locked_database_fails_the_batch_until_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Seconds that a writer waits for the lock.
    monkeypatch.setattr("penstock_tables.sql_table._BUSY_S", 0.05)
    kind = Kind("sql", tmp_path)
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TableWriteError, match=r"batch .* not written to table orders of .*database is locked"):
            writes.write(batch(1), SCHEMA, task(records(1)))
        other.rollback()
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_the_demonstration_reports_the_rows_of_its_files_and_the_time_to_the_first(tmp_path: Path) -> None:
    demonstration = TableOfLines(tmp_path / "files", time.time() - 5)
    assert demonstration.report() == "no batch was written"
    kind = Kind("files", tmp_path)
    for number in range(2):
        output(kind.table).write(batch(number), SCHEMA, task(records(number)))
    table, query = demonstration.report().splitlines()
    assert re.match(rf"table: 6 rows of 2 batches in {tmp_path}/files; .* queried \d+\.\d s after the command", table)
    (sql,) = re.findall(r'duckdb -c "(.+)"', query)
    with duckdb.connect() as connection:
        assert connection.sql(sql.replace("words", "n")).fetchall() != []


def test_dead_letters_stay_when_a_task_that_has_committed_is_repeated(tmp_path: Path) -> None:
    kind, dead = Kind("sql", tmp_path), tmp_path / "dead"
    wrong = [*records(0), ("a", "many")]

    def run(writer: PartitionWriter) -> list[str]:
        # Its executor was lost after the commit, so Spark repeats the task.
        task(wrong)(writer)
        return task(wrong)(writer)

    written = output(kind.table, dead_letter=str(dead)).write(batch(0), SCHEMA, run)
    assert "rows" not in written
    (letters,) = dead.glob("*/*")
    assert len(letters.read_text().splitlines()) == 1
    assert kind.rows() == as_rows(0)
