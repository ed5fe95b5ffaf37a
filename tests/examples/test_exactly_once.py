"""``exactly_once.py`` with SQLite, and with a PostgreSQL server of its own where one and psycopg are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import wait_for

if TYPE_CHECKING:
    from tests.examples.conftest import RunExample, Running

pytestmark = pytest.mark.spark


def commands() -> Path | None:
    """The folder of ``initdb`` and ``postgres``; Debian has it outside PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL that listens on a socket in a folder of its own."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (pip install psycopg)")
    folder = commands()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    # It refuses to run as root.
    user = None
    if os.getuid() == 0:
        try:
            user = pwd.getpwnam("postgres").pw_uid
        except KeyError:
            pytest.skip("root cannot run PostgreSQL, and there is no user postgres")
    # Not in tmp_path, which other users cannot enter; short, for the path of a socket.
    home = Path(tempfile.mkdtemp(prefix="penstock-postgresql-", dir="/tmp"))
    try:
        if user is not None:
            os.chown(home, user, -1)
        data, url = home / "data", f"postgresql://penstock@/postgres?host={home}"
        create: list[str | Path] = [
            folder / "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=penstock",
            "--pgdata",
            data,
        ]
        subprocess.run(create, check=True, user=user, cwd=home, stdout=subprocess.DEVNULL)
        serve: list[str | Path] = [
            folder / "postgres",
            "-D",
            data,
            "-k",
            home,
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        with subprocess.Popen(serve, user=user, cwd=home, stderr=subprocess.DEVNULL) as server:
            try:

                def answers() -> bool:
                    assert server.poll() is None, "PostgreSQL has ended"
                    with suppress(psycopg.OperationalError):
                        psycopg.connect(url).close()
                        return True
                    return False

                wait_for(answers, "PostgreSQL answers", poll_s=0.1)
                yield url
            finally:
                server.terminate()
    finally:
        shutil.rmtree(home)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], Any]]:
    """A database as the example's argument, and a function that connects to it."""
    if request.param == "sqlite":
        path = str(tmp_path / "counts.sqlite")
        return path, partial(sqlite3.connect, path)
    url = request.getfixturevalue("postgresql")
    return url, partial(pytest.importorskip("psycopg").connect, url)


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
