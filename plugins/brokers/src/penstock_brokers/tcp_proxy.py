"""``TcpProxy``: stands between a client and a server of a test, listens to both, and can break the connection.

For feeders and fault tests: a broker does not say which messages a client has acknowledged, and cannot lose one
client's connection.
"""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from penstock.spi import EngineThread

_CHUNK_BYTES = 1 << 16


class Wiretap(ABC):
    """Sees the bytes of one connection, in the order of each direction, before the other side gets them."""

    @abstractmethod
    def from_client(self, data: bytes) -> None:
        """Bytes of the client."""

    @abstractmethod
    def from_server(self, data: bytes) -> None:
        """Bytes of the server."""

    def closed(self) -> None:  # noqa: B027  # optional
        """One side has ended the connection, or the proxy has. May be called twice."""


class TcpProxy:
    """Forwards connections on a port of the loopback interface to a server.

    Args:
        host: the server.
        port: the server's port.
        tap: makes the wiretap of a new connection; ``None`` for none.

    Attributes:
        port: port for clients; the same after ``cut`` and ``heal``.
        accepted: the number of connections so far.
    """

    def __init__(self, host: str, port: int, tap: Callable[[], Wiretap] | None = None) -> None:
        self._server = (host, port)
        self._tap = tap
        self._lock = threading.Lock()
        self._running = threading.Event()
        self._running.set()
        self._sockets: set[socket.socket] = set()
        self._threads: list[EngineThread] = []
        self.accepted = 0
        self.port = 0
        self._listener: socket.socket | None = None
        self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """The number of connections that neither side has ended, or whose server has not read all of it."""
        with self._lock:
            return len(self._sockets) // 2

    def pause(self) -> None:
        """Forward nothing until ``heal``; connections stay open, and new ones are accepted."""
        self._running.clear()

    def cut(self) -> None:
        """Break every connection, and refuse new ones until ``heal``."""
        with self._lock:
            listener, self._listener = self._listener, None
            broken, self._sockets = self._sockets, set()
        if listener is not None:
            _end(listener)
        for each in broken:
            _end(each)
        self._running.set()

    def heal(self) -> None:
        """Forward again after ``pause`` or ``cut``."""
        self._running.set()
        if self._listener is None:
            self._listen()

    def close(self) -> None:
        """Break every connection and end every thread. Idempotent."""
        self.cut()
        for thread in self._threads:
            thread.finish(5.0)

    def _listen(self) -> None:
        self._listener = listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._start("accept", lambda: self._accept(listener))

    def _start(self, name: str, work: Callable[[], None]) -> None:
        thread = EngineThread(f"proxy {name}", work)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _address = listener.accept()
                self.accepted += 1
                self._connect(listener, client)

    def _connect(self, listener: socket.socket, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._server, 10)
        except OSError:
            _end(client)
            return
        for each in (client, server):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            is_cut = self._listener is not listener
            if not is_cut:
                self._sockets |= {client, server}
        if is_cut:
            _end(client)
            _end(server)
            return
        tap = _Deaf() if self._tap is None else self._tap()
        self._start("client", lambda: self._forward_requests(client, server, tap))
        self._start("server", lambda: self._forward_answers(server, client, tap))

    def _forward_requests(self, client: socket.socket, server: socket.socket, tap: Wiretap) -> None:
        with suppress(OSError):
            while data := client.recv(_CHUNK_BYTES):
                self._running.wait()
                tap.from_client(data)
                server.sendall(data)
        tap.closed()
        # The server reads what a client has sent before it was killed. A close would discard that together with the
        # answers that nobody reads.
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _forward_answers(self, server: socket.socket, client: socket.socket, tap: Wiretap) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK_BYTES):
                self._running.wait()
                tap.from_server(data)
                with suppress(OSError):
                    client.sendall(data)
        with self._lock:
            self._sockets -= {client, server}
        _end(client)
        _end(server)
        tap.closed()


class _Deaf(Wiretap):
    """Notes nothing."""

    def from_client(self, data: bytes) -> None:
        pass

    def from_server(self, data: bytes) -> None:
        pass


def _end(sock: socket.socket) -> None:
    # A blocked call on another thread returns at a shutdown, not at a close.
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
