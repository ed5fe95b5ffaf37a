"""``NetworkThread``: the thread that makes every call to a client of paho-mqtt, which it reads and writes.

paho-mqtt's own thread would be woken, and compete for the interpreter, for each message that another thread
acknowledges. Here other threads hand over calls, and one call acknowledges a whole batch.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import paho.mqtt.client as mqtt

from penstock.spi import EngineThread
from penstock_mqtt.keepalive import Keepalive

# Keepalives are due by the second.
_CHECK_MS = 500
# Packets that are read before calls are made and packets are written.
_READS = 100
_WAKES = 4096


class NetworkThread:
    """Connects a client, and serves it until its connection has ended.

    Args:
        client: without a thread of its own.
        connect: connects it.
        may_read: whether the client may read; called again after each call that was handed over.
        keepalive: that of the connection.
        on_error: called with the error of ``connect``, of a callback or of the keepalive; it ends the connection.
    """

    def __init__(
        self,
        client: mqtt.Client,
        connect: Callable[[], object],
        may_read: Callable[[], bool],
        keepalive: Keepalive,
        on_error: Callable[[Exception], object],
    ) -> None:
        self._client = client
        self._connect = connect
        self._may_read = may_read
        self._keepalive = keepalive
        self._on_error = on_error
        self._calls: deque[Callable[[], object]] = deque()
        self._wakes: tuple[socket.socket, socket.socket] | None = None
        # Without this callback, the client would write at once, on the thread that hands it a packet.
        client.on_socket_register_write = lambda *_socket: None
        self._reads = 0
        self._is_abandoned = False
        self._thread = EngineThread("mqtt network", self._run)

    def start(self) -> None:
        """Connect, once."""
        self._wakes = socket.socketpair()
        for end in self._wakes:
            end.setblocking(False)
        self._thread.start()

    def call(self, function: Callable[[], object]) -> None:
        """Make a call on this thread, after earlier ones. It is dropped if the connection has ended. Any thread."""
        self._calls.append(function)
        self.wake()

    def wake(self) -> None:
        """Have ``may_read`` called again. Any thread."""
        if self._wakes is not None:
            # It is full: the thread wakes anyway. It is closed: the thread has ended.
            with suppress(OSError):
                self._wakes[1].send(b"\0")

    def count_read(self) -> None:
        """Note that a packet was read that others may follow at once: for the callback of messages."""
        self._reads += 1

    def finish(self, timeout_s: float) -> bool:
        """Wait until the thread has ended; return whether it has, or has never been started."""
        return not self._thread.ident or self._thread.finish(timeout_s)

    def abandon(self) -> None:
        """End the thread without waiting for it: at once, or when the connection is made or refused."""
        self._is_abandoned = True
        self.wake()

    def _run(self) -> None:
        assert self._wakes is not None
        try:
            self._connect()
            while (connection := self._client.socket()) is not None and not self._is_abandoned:
                self._serve(connection, self._wakes[0])
        except Exception as error:
            self._on_error(error)
        finally:
            for each in (self._client.socket(), *self._wakes):
                if each is not None:
                    each.close()

    def _serve(self, connection: Any, wakes: socket.socket) -> None:
        """Wait until there is something to do for a connection, and do it."""
        client, may_read = self._client, self._may_read()
        poll = select.poll()
        poll.register(wakes, select.POLLIN)
        poll.register(connection, (select.POLLIN if may_read else 0) | (select.POLLOUT if client.want_write() else 0))
        # What TLS has decrypted already does not wake a poll.
        is_pending = may_read and isinstance(connection, ssl.SSLSocket) and connection.pending() > 0
        ready = dict(poll.poll(0 if is_pending else _CHECK_MS))
        if wakes.fileno() in ready:
            with suppress(BlockingIOError):
                wakes.recv(_WAKES)
        # A connection that has ended is ready, too: paho-mqtt notices when it reads.
        is_readable = is_pending or ready.get(connection.fileno(), 0) & ~select.POLLOUT
        if is_readable:
            self._read()
        if is_readable or not may_read:
            self._keepalive.hear()
        while self._calls:
            self._calls.popleft()()
        if client.is_connected() and self._keepalive.is_due(monotonic()):
            # paho-mqtt has no public call for it.
            client._send_pingreq()
        if client.want_write():
            client.loop_write()

    def _read(self) -> None:
        for _ in range(_READS):
            before = self._reads
            # One packet at most.
            self._client.loop_read()
            if self._reads == before or not self._may_read():
                return
