"""A TCP server that a test writes lines to: what receivers and examples connect to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


class LineServer:
    """Sends lines to the one client that connects."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.address: tuple[str, int] = listening.getsockname()

    def accept(self) -> socket.socket:
        """The client's connection."""
        connection, _ = self._listening.accept()
        connection.settimeout(120)
        return connection


@contextmanager
def line_server() -> Iterator[LineServer]:
    """A server on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        yield LineServer(listening)
