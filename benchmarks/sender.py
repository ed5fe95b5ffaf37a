"""Serves text lines to the measured programs: as fast as they read, at a constant pace, or none at all."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Self

from attrs import frozen

from benchmarks.data import STAMP, Lines

_POLL_S = 0.1
_PORTION_S = 1.0


@frozen
class Pace:
    """The pace at which lines are sent.

    Attributes:
        burst: lines that are sent together; 0: all at once, as fast as they are taken.
        period_s: from one burst to the next.
        is_stamped: whether the last line of a burst ends with a word that says when it was sent.
        warm_up: without bursts, lines that are sent first.
        portions: in how many portions, a second apart.
        pause_s: from these to the others, for a program to run its first batches.
    """

    burst: int = 0
    period_s: float = 0.0
    is_stamped: bool = False
    warm_up: int = 0
    portions: int = 1
    pause_s: float = 0.0


class Sender:
    """Listens on a port of this machine for each receiver; sends its share of the lines to the first client of each.

    Every connection stays open until the sender is closed. As a context manager it closes itself.

    Args:
        lines: what to send; each port sends the same lines.
        num_lines: how many each port sends.
        ports: how many receivers there will be.
        pace: how fast.
    """

    def __init__(self, lines: Lines, num_lines: int, ports: int = 1, pace: Pace | None = None) -> None:
        self._lines = lines
        self._num_lines = num_lines
        self._pace = pace or Pace()
        self._closed = threading.Event()
        self._failed: list[OSError] = []
        self._lock = threading.Lock()
        self._began_at: list[float] = []
        self._sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(ports)]
        self._block = lines.encoded(0, lines.period) if num_lines >= lines.period and not self._pace.burst else b""
        for listener in self._sockets:
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    @property
    def ports(self) -> list[int]:
        """The ports on which it listens."""
        return [int(sock.getsockname()[1]) for sock in self._sockets]

    @property
    def began_at(self) -> float:
        """When the first client connected, or its warm-up ended, in seconds of the epoch; 0 before."""
        with self._lock:
            return min(self._began_at, default=0.0)

    def close(self) -> None:
        """Stop sending, and close all connections."""
        self._closed.set()
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Self:
        """The sender."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close it."""
        self.close()

    def _serve(self, listener: socket.socket) -> None:
        listener.settimeout(_POLL_S)
        while not self._closed.is_set():
            with suppress(TimeoutError, OSError):
                connection, _address = listener.accept()
                break
        else:
            return
        with connection, suppress(OSError):
            connection.settimeout(None)
            self._send_warm_up(connection)
            self._closed.wait(self._pace.pause_s)
            with self._lock:
                self._began_at.append(time.time())
            if self._pace.burst:
                self._send_bursts(connection)
            else:
                self._send_all(connection)
            self._closed.wait()

    def _send_warm_up(self, connection: socket.socket) -> None:
        size = -(-self._pace.warm_up // self._pace.portions)
        for first in range(0, self._pace.warm_up, max(size, 1)):
            if first and self._closed.wait(_PORTION_S):
                return
            connection.sendall(self._lines.encoded(first, min(first + size, self._pace.warm_up)))

    def _send_all(self, connection: socket.socket) -> None:
        first = min(self._pace.warm_up, self._num_lines)
        whole, rest = divmod(self._num_lines - first, self._lines.period)
        for _ in range(whole):
            connection.sendall(self._block)
        # After a warm-up in another order, and all of them.
        connection.sendall(self._lines.encoded(first, first + rest))

    def _send_bursts(self, connection: socket.socket) -> None:
        due = time.monotonic()
        for first in range(0, self._num_lines, self._pace.burst):
            if self._closed.wait(max(due - time.monotonic(), 0.0)):
                return
            due += self._pace.period_s
            data = self._lines.encoded(first, min(first + self._pace.burst, self._num_lines))
            if self._pace.is_stamped:
                data = data[:-1] + f" {STAMP}{time.time_ns() // 1000}\n".encode()
            connection.sendall(data)
