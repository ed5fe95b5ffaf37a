"""``TcpReceiver``: base class of receivers that read from a TCP server.

It owns the connection: ``onStart`` creates it, ``onStop`` interrupts it, and it is closed when ``receive`` returns. One
thread connects, receives and stores. While a store blocks the thread, TCP flow control slows the server.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from penstock import ThreadReceiver
from penstock.spi import get_logger
from penstock_socket.connection import Connection, Interrupted

log = get_logger("socket")

T = TypeVar("T")


class TcpReceiver(ThreadReceiver[T]):
    """Connects, and hands the connection to ``receive_from``.

    Args:
        host: name or address of the server.
        connect_timeout_s: timeout of ``Connection``.
    """

    _connection: Connection | None = None

    def __init__(self, host: str, port: int, connect_timeout_s: float) -> None:
        self._host = host
        self._port = port
        self._connect_timeout_s = connect_timeout_s

    @abstractmethod
    def receive_from(self, connection: Connection) -> None:
        """Receive and store until the connection ends, then call ``restart``.

        Args:
            connection: open; the caller closes it.

        Raises:
            Interrupted: the receiver is stopping.
        """

    @property
    def _server(self) -> str:
        """The server's address, for messages."""
        return f"{self._host}:{self._port}"

    def onStart(self) -> None:
        connection, before = Connection(self._host, self._port, self._connect_timeout_s), self._connection
        self._connection = connection
        try:
            super().onStart()
        except BaseException:
            self._connection = before
            connection.close()
            raise

    def onStop(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()
        super().onStop()

    def receive(self) -> None:
        connection = self._connection
        assert connection is not None
        try:
            if self._open(connection):
                self.receive_from(connection)
        except Interrupted:
            log.debug("connection interrupted", stream_id=self.streamId)
        finally:
            connection.close()

    def _open(self, connection: Connection) -> bool:
        try:
            connection.open()
        except OSError as error:
            self.restart(f"Error connecting to {self._server}", error)
            return False
        return True
