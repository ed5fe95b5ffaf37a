"""``PostgreSqlServer``: a PostgreSQL server as a child process, with one user whose password is checked."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock_brokers import BrokerServer

if TYPE_CHECKING:
    import psycopg

USER, PASSWORD = "penstock", "let-me-write"


class PostgreSqlServer(BrokerServer):
    """A server that stores its databases in ``data``. Nothing waits for its disk.

    Args:
        programs: the folder of ``initdb`` and ``postgres``.
        user: the id of the user who runs them, because they refuse to run as root; ``None`` for this one.
    """

    name = "PostgreSQL"
    # It may have to recover from a kill, on a busy machine.
    start_timeout_s = 120.0

    def __init__(self, programs: Path, user: int | None) -> None:
        super().__init__()
        self._programs = programs
        self._as_user = ["setpriv", f"--reuid={user}", "--clear-groups"] if user is not None else []
        if user is not None:
            os.chown(self.folder, user, -1)
        self._user = user

    def url(self, database: str = "postgres", *, scheme: str = "postgresql", password: str = "") -> str:
        """The URL of a database, with a password if one is given."""
        user = f"{USER}:{password}" if password else USER
        return f"{scheme}://{user}@127.0.0.1:{self.port}/{database}"

    def command(self) -> Sequence[str | Path]:
        if not (self.data / "PG_VERSION").exists():
            password = self.folder / "password"
            password.write_text(PASSWORD)
            if self._user is not None:
                for path in (self.data, password):
                    os.chown(path, self._user, -1)
            create: list[str | Path] = [*self._as_user, self._programs / "initdb", "--no-sync", "--pgdata", self.data]
            create += ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={password}"]
            subprocess.run(create, check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
        listen = ["-h", "127.0.0.1", "-p", str(self.port), "-c", "unix_socket_directories=", "-c", "fsync=off"]
        return [*self._as_user, self._programs / "postgres", "-D", self.data, *listen]

    def answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError):
            self.connect().close()
            return True
        return False

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Connect with the password; every statement is a transaction of its own."""
        import psycopg

        return psycopg.connect(self.url(database), password=PASSWORD, autocommit=True)

    def create_database(self, name: str) -> None:
        """Create an empty database."""
        with closing(self.connect()) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())


def programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``; Debian has it outside PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextmanager
def postgresql() -> Iterator[PostgreSqlServer]:
    """A running server; skips the test where one cannot run."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (pip install psycopg)")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    user = None
    if os.getuid() == 0:
        try:
            user = pwd.getpwnam("postgres").pw_uid
        except KeyError:
            pytest.skip("root cannot run PostgreSQL, and there is no user postgres")
    with PostgreSqlServer(folder, user) as server:
        yield server
