"""``to_sql`` with a PostgreSQL server: the cases of every table, types, the password, and a server that fails."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from plugins.tables.tests import test_table_output as cases
from plugins.tables.tests.kind_of_table import Kind, task
from plugins.tables.tests.test_table_output import SCHEMA, as_rows, batch, output, records
from tests.helpers.postgresql import PASSWORD, PostgreSqlServer, postgresql

from penstock_tables import TableWriteError
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.sql_table import SqlTableSettings, engine_of

DRIVER = "postgresql+psycopg"
_names = (f"shop{number}" for number in count())


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSqlServer]:
    with postgresql() as server:
        yield server


@pytest.fixture
def database(server: PostgreSqlServer, monkeypatch: pytest.MonkeyPatch) -> str:
    name = next(_names)
    server.create_database(name)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    return name


@pytest.fixture
def kind(server: PostgreSqlServer, database: str, tmp_path: Path) -> Iterator[Kind]:
    table = SqlTableSettings(server.url(database, scheme=DRIVER), "orders", "env:SHOP_PASSWORD")
    yield Kind("sql", tmp_path, table, server)
    engine_of(table).dispose()


CASES = [
    case
    for name, case in vars(cases).items()
    if name.startswith("test_") and inspect.signature(case).parameters.keys() == {"kind"}
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_every_other_table(case: Callable[[Kind], None], kind: Kind) -> None:
    case(kind)


def test_each_type_comes_back_and_the_database_fills_in_its_defaults(
    kind: Kind, server: PostgreSqlServer, database: str
) -> None:
    schema = pa.schema(
        [
            ("text", pa.string()),
            ("count", pa.int64()),
            ("share", pa.float64()),
            ("price", pa.decimal128(10, 2)),
            ("paid", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("raw", pa.binary()),
        ]
    )
    now = datetime.datetime(2026, 5, 1, 12, 30, 0, 5, datetime.UTC)
    row = ("pen", 2**40, 0.25, Decimal("12.50"), True, now.date(), now, b"\x00\xff")
    with closing(server.connect(database)) as connection:
        connection.execute(
            "CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " text text, count bigint NOT NULL, share double precision, price numeric(10, 2), paid boolean, day date,"
            " at timestamptz, raw bytea, seen timestamptz NOT NULL DEFAULT now())"
        )
        assert isinstance(kind.table, SqlTableSettings)
        table = SqlTableSettings(kind.table.url, "shop.orders", "env:SHOP_PASSWORD")
        output(table).write(batch(0), schema, task([row, row]))
        engine_of(table).dispose()
        columns = ", ".join(schema.names)
        assert connection.execute(f"SELECT id, {columns} FROM shop.orders".encode()).fetchall() == [
            (1, *row),
            (2, *row),
        ]


def test_password_is_checked_and_in_no_message(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PASSWORD not in f"{kind.table!r} {kind.table.name}"
    monkeypatch.setenv("OTHER_PASSWORD", "hunter2-hunter2")
    assert isinstance(kind.table, SqlTableSettings)
    other = SqlTableSettings(kind.table.url, "orders", "env:OTHER_PASSWORD")
    with pytest.raises(TableWriteError, match="password authentication failed") as refused:
        output(other).write(batch(0), SCHEMA, task([]))
    assert "hunter2" not in str(refused.value)


def test_a_server_that_is_away_fails_the_batch_and_leaves_the_others(kind: Kind, server: PostgreSqlServer) -> None:
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))

    def interrupted(writer: PartitionWriter) -> list[str]:
        def rows() -> Iterator[object]:
            yield from records(1)
            # In the middle of the transaction.
            server.kill()

        return list(writer.write_records(0, rows()))

    with pytest.raises(
        TableWriteError, match=r"batch .* not written to table orders of postgresql.*onFailedBatch=retry"
    ):
        writes.write(batch(1), SCHEMA, interrupted)
    with pytest.raises(TableWriteError, match="onFailedBatch=retry"):
        writes.write(batch(1), SCHEMA, task(records(1)))
    server.start()
    assert kind.rows() == as_rows(0)
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_a_locked_table_fails_the_batch_until_it_is_free(
    kind: Kind, server: PostgreSqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Seconds that a writer waits for the lock.
    monkeypatch.setattr("penstock_tables.sql_table._BUSY_S", 0.05)
    writes = output(kind.table)
    writes.write(batch(0), SCHEMA, task(records(0)))
    with closing(server.connect(database)) as other, other.transaction():
        other.execute("LOCK TABLE orders IN SHARE MODE")
        with pytest.raises(TableWriteError, match=r"batch .* not written to table orders of .*lock timeout"):
            writes.write(batch(1), SCHEMA, task(records(1)))
    writes.write(batch(1), SCHEMA, task(records(1)))
    assert kind.rows() == as_rows(0, 1)


def test_a_task_that_spark_repeats_while_the_first_one_commits_writes_nothing(kind: Kind) -> None:
    def run(writer: PartitionWriter) -> list[str]:
        first = task(records(0))(writer)
        return [*first, *task(records(0))(writer)]

    output(kind.table).write(batch(0), SCHEMA, run)
    assert kind.rows() == as_rows(0)
