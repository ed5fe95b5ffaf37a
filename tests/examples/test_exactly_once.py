"""``exactly_once.py`` with SQLite, and with a PostgreSQL server of its own where one and psycopg are installed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import wait_for
from tests.helpers.postgresql import PASSWORD, PostgreSqlServer, postgresql

if TYPE_CHECKING:
    from tests.examples.conftest import RunExample, Running

pytestmark = pytest.mark.spark


@pytest.fixture
def postgresql_server() -> Iterator[PostgreSqlServer]:
    with postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], Any]]:
    """A database as the example's argument, and a function that connects to it."""
    if request.param == "sqlite":
        path = str(tmp_path / "counts.sqlite")
        return path, partial(sqlite3.connect, path)
    server = request.getfixturevalue("postgresql_server")
    return server.url(password=PASSWORD), server.connect


def test_exactly_once_adds_a_batch_that_runs_again_once(
    run_example: RunExample, database: tuple[str, Callable[[], Any]], tmp_path: Path
) -> None:
    name, connect = database

    def rows(query: str) -> list[Any]:
        with closing(connect()) as connection:
            return list(connection.execute(query))

    def act(_example: Running) -> None:
        (texts / ".one").write_text("to be or not to be\n")
        (texts / ".one").rename(texts / "one")
        wait_for(lambda: len(rows("SELECT * FROM counts")) == 4, "the words are counted")

    texts = tmp_path / "texts"
    texts.mkdir()
    program = run_example("exactly_once", texts, name, tmp_path / "checkpoint", act=act)
    once = {"to": 2, "be": 2, "or": 1, "not": 1}
    assert dict(rows("SELECT word, n FROM counts")) == once
    ((batch,),) = rows("SELECT DISTINCT batch FROM written")
    counts = program["shared"](None).parallelize(once.items()).reduceByKey(lambda a, b: a + b, 2)
    program["write"](datetime.fromtimestamp(batch / 1000), counts)
    assert dict(rows("SELECT word, n FROM counts")) == once
    program["write"](datetime.fromtimestamp(batch / 1000 + 1), counts)
    assert dict(rows("SELECT word, n FROM counts")) == {word: 2 * count for word, count in once.items()}
