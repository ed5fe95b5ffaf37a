"""A reference receiver for checks of byte streams: lines of text from a TCP server."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from tests.mutants.mutant import Mutant

from penstock import ThreadReceiver
from penstock_testing import TcpFeeder

_LIMIT = 200_000


class LineFeeder(TcpFeeder):
    """Knows the limit of ``LineReceiver``."""

    def oversize(self) -> tuple[Any, str]:
        return "x" * (_LIMIT + 1), "dropped"


def line_mutant(
    check: str, make: type[LineReceiver], words: str, scale: float = 1.0, *also: str, because: str = ""
) -> Mutant:
    """A mutant that derives from ``LineReceiver``."""
    return Mutant(
        check=check, words=words, kind="receiver", make=make, feeder=LineFeeder, scale=scale, also=also, because=because
    )


class LineReceiver(ThreadReceiver[str]):
    """Reads lines; drops and reports those above a limit; reconnects."""

    def __init__(self, feeder: TcpFeeder) -> None:
        self.address = (str(feeder.options()["host"]), int(feeder.options()["port"]))
        self.socket: socket.socket | None = None
        self.rest = b""

    def receive(self) -> None:
        with socket.create_connection(self.address, timeout=30) as connection:
            connection.settimeout(None)
            self.socket = connection
            self.rest = b""
            # Asked after the socket is visible to onStop: a stop either is seen here or shuts it down.
            while not self.isStopped() and (data := connection.recv(65536)):
                self.store_all(self.lines(data))
            self.finish()
        if not self.isStopped():
            self.restart("the server has closed the connection")

    def finish(self) -> None:
        """Store the last line, which may lack its line feed."""
        if self.rest:
            self.store_all(self.lines(b"\n"))

    def lines(self, data: bytes) -> list[str]:
        """The lines that these bytes complete."""
        *whole, rest = (self.rest + data).split(b"\n")
        # One byte more than the limit shows that a line is too long.
        self.rest = rest[: _LIMIT + 1]
        complete = []
        for line in whole:
            try:
                if len(line) > _LIMIT:
                    self.reject(f"a line longer than {_LIMIT} bytes dropped")
                else:
                    complete.append(line.decode())
            except UnicodeDecodeError as error:
                self.reject(f"a line dropped: {error}")
        return complete

    def reject(self, message: str) -> None:
        """Report a line that was dropped."""
        self.reportError(message)

    def onStop(self) -> None:
        if self.socket is not None:
            # Closed meanwhile.
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        super().onStop()
