"""A sender of webhooks with an outbox on its disk: ``python -m benchmarks.faults.webhook_sender OUTBOX PORT``.

Each connection has its own share of the numbers. It sends some of them in a request, and removes them from the outbox
when the answer is 2xx. After any other answer, and after none in time, it sends them again. The outbox is all that the
sender knows, so it may be killed at any moment.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self

#: How long the sender waits for an answer.
ANSWER_S = 3.0
_CONNECTIONS = 8
_NUMBERS_PER_REQUEST = 100
# Between two looks into an empty outbox, and after a request that has to be sent again.
_PAUSE_S = 0.02
_RETRY_S = 0.2


class Outbox:
    """Numbers that nobody has answered with 2xx, in a file. A ``with`` block closes it. Used on one thread.

    Args:
        path: of a file that ``create`` has created.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=ANSWER_S, isolation_level=None)

    @staticmethod
    def create(path: Path) -> None:
        """Create the file, unless it exists."""
        with closing(sqlite3.connect(path, timeout=ANSWER_S)) as database, database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._database.close()

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM numbers").fetchone()[0])

    def add(self, numbers: Sequence[int]) -> None:
        """Add numbers: all of them or, with an error of SQLite, none."""
        self._execute_for_each("INSERT INTO numbers VALUES (?)", numbers)

    def share(self, connection: int) -> list[int]:
        """The next numbers of a connection."""
        query = "SELECT number FROM numbers WHERE number % ? = ? ORDER BY number LIMIT ?"
        return [number for (number,) in self._database.execute(query, (_CONNECTIONS, connection, _NUMBERS_PER_REQUEST))]

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove numbers that were answered with 2xx."""
        self._execute_for_each("DELETE FROM numbers WHERE number = ?", numbers)

    def _execute_for_each(self, statement: str, numbers: Sequence[int]) -> None:
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(statement, [(number,) for number in numbers])


def send_share(path: Path, port: int, connection: int) -> None:
    """Send the numbers of a connection for ever."""
    client = HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    with Outbox(path) as outbox:
        while True:
            numbers = outbox.share(connection)
            if not numbers:
                time.sleep(_PAUSE_S)
            elif is_answered(client, numbers):
                outbox.remove(numbers)
            else:
                time.sleep(_RETRY_S)


def is_answered(client: HTTPConnection, numbers: Sequence[int]) -> bool:
    """Send numbers in one request; whether the answer is 2xx."""
    try:
        client.request("POST", "/", "\n".join(map(str, numbers)).encode())
        answer = client.getresponse()
        answer.read()
    except (OSError, HTTPException):
        client.close()
        return False
    return 200 <= answer.status < 300


def main() -> None:
    """Send until the process is killed."""
    path, port = Path(sys.argv[1]), int(sys.argv[2])
    Outbox.create(path)
    threads = [
        threading.Thread(target=send_share, args=(path, port, connection), name=f"connection {connection}")
        for connection in range(_CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
