"""SQL tables, through SQLAlchemy. One task writes a batch in one transaction, together with the batch's identity.

Beside the table are ``penstock_batches``, a row per batch, and ``penstock_writers``, the newest writer of each output.
The task locks the writer's row first, so a task that Spark repeats, or a second driver, waits and then finds the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import field, frozen

from penstock import ConfigurationError
from penstock_tables.batch_identity import BatchId, Standing, newer_writer
from penstock_tables.partition_writer import DataFile, PartitionWriter, delete_others
from penstock_tables.row_fitting import RowFitting
from penstock_tables.table import Commit, MissingTableError, OpenTable, Table
from penstock_tables.table_schemas import TableSchemaError

if TYPE_CHECKING:
    from penstock_brokers import Secret

# How long a batch waits for a lock.
_BUSY_S = 60
# OpenLineage's names of databases, where SQLAlchemy has others.
_LINEAGE_NAMES: Mapping[str, str] = {"postgresql": "postgres"}


def _without_password(url: str) -> str:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            "the url of to_sql is none of SQLAlchemy's, such as sqlite:////data/counts.db or "
            "postgresql+psycopg://writer@db.example/shop"
        ) from None
    if parsed.password:
        raise ConfigurationError(
            "the url of to_sql contains a password, which would be saved in checkpoints: leave it out and set "
            "password='env:NAME' or password='file:PATH'"
        )
    return url


def _secret(reference: str | None) -> Secret | None:
    from penstock_brokers import Secret

    try:
        return None if reference is None else Secret(reference)
    except ValueError:
        raise ConfigurationError(
            "the password of to_sql is 'env:NAME' or 'file:PATH', not the password itself"
        ) from None


@frozen
class SqlTableSettings(Table):
    """A table of a database.

    Attributes:
        url: SQLAlchemy's URL, without a password.
        table: name of the table, with its schema if that is not the default one.
        password: where the password is; read on the driver and in tasks.
    """

    url: str = field(converter=_without_password)
    table: str
    password: Secret | None = field(default=None, converter=_secret)

    commits_in_task = True

    @property
    def name(self) -> str:
        from sqlalchemy.engine import make_url

        return f"table {self.table} of {make_url(self.url).render_as_string(hide_password=True)}"

    @property
    def dataset(self) -> str:
        from sqlalchemy.engine import make_url

        url = make_url(self.url)
        backend = url.get_backend_name()
        if backend == "sqlite":
            return f"sqlite:{Path(url.database or '').absolute()}.{self.table}"
        address = f"{url.host}:{url.port}" if url.port else url.host or ""
        return f"{_LINEAGE_NAMES.get(backend, backend)}://{address}/{url.database}.{self.table}"

    def open(self, schema: pa.Schema | None) -> OpenTable:
        import sqlalchemy as sql

        engine = engine_of(self)
        metadata = book_keeping()
        metadata.create_all(engine, checkfirst=True)
        schema_name, _, table_name = self.table.rpartition(".")
        if not sql.inspect(engine).has_table(table_name, schema=schema_name or None):
            if schema is None:
                raise MissingTableError(f"{self.name} does not exist: give schema=, with which it is created")
            columns = [
                sql.Column(column.name, _sql_type(column, self.name), nullable=column.nullable) for column in schema
            ]
            sql.Table(table_name, sql.MetaData(schema=schema_name or None), *columns).create(engine, checkfirst=True)
        return OpenSqlTable(self)

    def reflected(self) -> Any:
        """SQLAlchemy's description of the table as it is."""
        import sqlalchemy as sql

        schema_name, _, table_name = self.table.rpartition(".")
        return sql.Table(table_name, sql.MetaData(schema=schema_name or None), autoload_with=engine_of(self))


class OpenSqlTable(OpenTable):
    """A table with its columns of now."""

    def __init__(self, settings: SqlTableSettings) -> None:
        self._settings = settings

    def schema(self) -> pa.Schema:
        columns = self._settings.reflected().columns
        # The database fills in a column with a default, such as an identity.
        return pa.schema(
            [
                pa.field(column.name, _arrow_type(column, self._settings.name), bool(column.nullable))
                for column in columns
                if not _fills_itself(column)
            ]
        )

    def standing(self, batch: BatchId) -> Standing:
        import sqlalchemy as sql

        tables = book_keeping().tables
        writers, batches = tables["penstock_writers"], tables["penstock_batches"]
        of_run = [batches.c.writer == batch.writer, batches.c.run == batch.run]
        with engine_of(self._settings).connect() as connection:
            newest = connection.scalar(sql.select(writers.c.number).where(writers.c.writer == batch.writer))
            # By the primary key, however many batches there are. A run keeps its number.
            of_last = (
                sql.select(batches.c.number, batches.c.batch_ms).where(*of_run).order_by(batches.c.batch_ms.desc())
            )
            last = connection.execute(of_last.limit(1)).first()
        return Standing(newest or 0) if last is None else Standing(newest or 0, last.number, last.batch_ms)

    def has(self, batch: BatchId) -> bool:
        import sqlalchemy as sql

        batches = book_keeping().tables["penstock_batches"]
        same = [
            batches.c.writer == batch.writer,
            batches.c.run == batch.run,
            batches.c.batch_ms == batch.time_ms,
        ]
        with engine_of(self._settings).connect() as connection:
            return connection.execute(sql.select(batches.c.batch_ms).where(*same)).first() is not None

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        import sqlalchemy as sql

        engine = engine_of(self._settings)
        quote = engine.dialect.identifier_preparer
        table = quote.format_table(self._settings.reflected())
        with engine.begin() as connection:
            for column in columns:
                kind = _sql_type(column, self._settings.name)().compile(engine.dialect)
                connection.execute(sql.text(f"ALTER TABLE {table} ADD COLUMN {quote.quote(column.name)} {kind}"))

    def writer(self, batch: BatchId, schema: pa.Schema, number: int, dead_letter: str | None) -> PartitionWriter:
        return SqlPartitionWriter(batch, "", schema, dead_letter=dead_letter, settings=self._settings, number=number)

    def commit(self, commit: Commit) -> None:
        """Do nothing: the task has committed."""


@frozen
class SqlPartitionWriter(PartitionWriter):
    """Writes the only partition of a batch in one transaction.

    Attributes:
        settings: of the table.
        number: the number under which the run writes.
    """

    settings: SqlTableSettings = field(kw_only=True)
    number: int = field(kw_only=True)

    def _written(self, index: int, fit: Any) -> Iterator[str]:
        import sqlalchemy as sql

        fitting = RowFitting(self.schema)
        tables = book_keeping().tables
        writers, batches = tables["penstock_writers"], tables["penstock_batches"]
        own_row = writers.c.writer == self.batch.writer
        rows = 0
        _ensure_row(engine_of(self.settings), writers, self.batch.writer)
        with engine_of(self.settings).begin() as connection:
            # Locks the row until the end of the transaction. Of two fresh runs with one number, the first one has it.
            is_ours = sql.and_(writers.c.number == self.number, writers.c.run == self.batch.run)
            locked = sql.update(writers).where(own_row, sql.or_(writers.c.number < self.number, is_ours))
            if connection.execute(locked.values(number=self.number, run=self.batch.run)).rowcount == 0:
                newest = connection.scalar(sql.select(writers.c.number).where(own_row)) or 0
                raise newer_writer(self.batch, self.settings.name, newest, self.number)
            identity = {"writer": self.batch.writer, "run": self.batch.run, "batch_ms": self.batch.time_ms}
            known = sql.select(batches.c.rows).filter_by(**identity)
            if connection.execute(known).first() is not None:
                return iter(())
            target = self.settings.reflected()
            for fitted in fit(fitting):
                connection.execute(target.insert(), fitted.to_pylist())
                rows += fitted.num_rows
            connection.execute(batches.insert(), {**identity, "number": self.number, "rows": rows})
            # Before the commit: a batch that fails because of them is not written.
            letters = self._set_aside(index, fitting.refused) if fitting.refused else ""
            if self.dead_letter is not None:
                delete_others(f"{self.dead_letter}/{self.batch.file_prefix}", {letters})
        return iter([DataFile("", rows, 0, refused=len(fitting.refused), dead_letter=letters).to_json()])


def _ensure_row(engine: Any, writers: Any, writer: str) -> None:
    import sqlalchemy as sql
    from sqlalchemy.exc import IntegrityError

    with engine.connect() as connection:
        if connection.scalar(sql.select(writers.c.number).where(writers.c.writer == writer)) is not None:
            return
    try:
        with engine.begin() as connection:
            connection.execute(writers.insert(), {"writer": writer, "number": 0, "run": ""})
    except IntegrityError:
        pass  # another writer was first


@lru_cache(maxsize=16)
def engine_of(settings: SqlTableSettings) -> Any:
    """The connections of this process to a database."""
    import sqlalchemy as sql
    from sqlalchemy import event
    from sqlalchemy.engine import make_url

    url = make_url(settings.url)
    if settings.password is not None:
        url = url.set(password=settings.password.read())
    options = {"timeout": _BUSY_S} if url.get_backend_name() == "sqlite" else {}
    engine = sql.create_engine(url, pool_pre_ping=True, connect_args=options, hide_parameters=True)
    if url.get_backend_name() == "postgresql":
        event.listen(engine, "connect", _limit_waiting)
    return engine


def _limit_waiting(connection: Any, _record: object) -> None:
    """Have PostgreSQL wait for a lock as long as SQLite, and not without end, unless the URL or the server says so."""
    with closing(connection.cursor()) as cursor:
        limit = f"set_config('lock_timeout', '{round(_BUSY_S * 1000)}ms', false)"
        cursor.execute(f"SELECT {limit} WHERE current_setting('lock_timeout') = '0'")
    connection.commit()


@lru_cache(maxsize=1)
def book_keeping() -> Any:
    """The tables that carry the identities of batches."""
    import sqlalchemy as sql

    metadata = sql.MetaData()
    sql.Table(
        "penstock_writers",
        metadata,
        sql.Column("writer", sql.String(500), primary_key=True),
        sql.Column("number", sql.Integer, nullable=False),
        sql.Column("run", sql.String(100), nullable=False),
    )
    sql.Table(
        "penstock_batches",
        metadata,
        sql.Column("writer", sql.String(500), primary_key=True),
        sql.Column("run", sql.String(100), primary_key=True),
        sql.Column("batch_ms", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("number", sql.Integer, nullable=False),
        sql.Column("rows", sql.BigInteger, nullable=False),
        sql.Column("written_at", sql.DateTime(timezone=True), server_default=sql.func.current_timestamp()),
    )
    return metadata


def _fills_itself(column: Any) -> bool:
    is_serial = column.primary_key and column.autoincrement is True
    return bool(column.server_default is not None or column.computed is not None or column.identity or is_serial)


def _sql_type(column: pa.Field, table: str) -> Any:
    import sqlalchemy as sql

    kinds: list[tuple[Any, Any]] = [
        (pa.types.is_boolean, sql.Boolean),
        (pa.types.is_integer, sql.BigInteger),
        (pa.types.is_floating, sql.Double),
        (pa.types.is_string, sql.Text),
        (pa.types.is_large_string, sql.Text),
        (pa.types.is_binary, sql.LargeBinary),
        (pa.types.is_large_binary, sql.LargeBinary),
        (pa.types.is_date, sql.Date),
    ]
    for matches, kind in kinds:
        if matches(column.type):
            return kind
    if pa.types.is_timestamp(column.type):
        return lambda: sql.DateTime(timezone=column.type.tz is not None)
    if pa.types.is_decimal(column.type):
        return lambda: sql.Numeric(column.type.precision, column.type.scale)
    raise TableSchemaError(
        f"column {column.name!r} has type {column.type}, which {table} cannot hold: convert it in the stream, for "
        "example to JSON text"
    )


def _arrow_type(column: Any, table: str) -> pa.DataType:
    import sqlalchemy as sql

    match column.type:
        case sql.Boolean():
            return pa.bool_()
        case sql.SmallInteger():
            return pa.int16()
        case sql.BigInteger():
            return pa.int64()
        case sql.Integer():
            return pa.int64() if column.type.__class__.__name__ == "INTEGER" else pa.int32()
        case sql.Float():
            return pa.float64()
        case sql.Numeric():
            return pa.decimal128(column.type.precision or 38, column.type.scale or 0)
        case sql.DateTime():
            return pa.timestamp("us", "UTC" if column.type.timezone else None)
        case sql.Date():
            return pa.date32()
        case sql.LargeBinary():
            return pa.binary()
        case sql.String():
            return pa.string()
    raise TableSchemaError(
        f"column {column.name!r} of {table} has the type {column.type}, which to_sql does not write: give it a "
        "default, so that the database fills it in, or write into a view or a table of simpler types"
    )
