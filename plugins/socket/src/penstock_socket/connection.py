"""``Connection``: one outgoing TCP connection. Another thread can interrupt every wait.

All methods run on the receiver's thread, except ``interrupt``, which any thread may call. A short-lived daemon thread
resolves the host name, because ``getaddrinfo`` cannot be interrupted.
"""

from __future__ import annotations

import errno
import os
import queue
import select
import socket
import threading
from typing import Any

_Addresses = list[tuple[Any, ...]]


class Interrupted(BaseException):
    """``interrupt`` was called. Not an ``Exception``: a converter that handles errors must not handle it."""


class Connection:
    """A connection to a server.

    Args:
        host: name or address.
        timeout_s: timeout for resolving the name, and for connecting to each of its addresses.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        # A byte sent from one socket to the other ends a wait in poll.
        self._wake_receiver, self._wake_sender = socket.socketpair()
        # The resolved addresses, or the error that ends the wait for them.
        self._answers: queue.SimpleQueue[_Addresses | BaseException] = queue.SimpleQueue()
        self._interrupted = threading.Event()
        # Prevents interrupt from writing to a descriptor that close has freed and another file has reused.
        self._closing = threading.Lock()

    def open(self) -> None:
        """Connect to the first address that accepts.

        Raises:
            Interrupted: ``interrupt`` was called.
            OSError: no address accepted the connection; the error of the last one.
        """
        failure: OSError = OSError(f"{self._host!r} has no address")
        for family, kind, protocol, _name, address in self._resolve():
            candidate = socket.socket(family, kind, protocol)
            try:
                self._connect(candidate, address)
            except OSError as error:
                candidate.close()
                failure = error
            except BaseException:
                candidate.close()
                raise
            else:
                self._socket = candidate
                return
        raise failure

    def receive_into(self, buffer: memoryview, timeout_s: float | None) -> int | None:
        """Receive at least one byte.

        Args:
            buffer: filled from its start; not empty.
            timeout_s: the timeout; ``None`` for none.

        Returns:
            The number of bytes; 0 at the end of the stream; ``None`` after the timeout.

        Raises:
            Interrupted: ``interrupt`` was called.
            OSError: the connection broke.
        """
        assert self._socket is not None
        while not self._interrupted.is_set():
            try:
                # Try without polling first: under load, bytes are nearly always available.
                return self._socket.recv_into(buffer)
            except BlockingIOError:
                if not self._poll(self._socket, select.POLLIN, timeout_s):
                    return None
        raise Interrupted

    def interrupt(self) -> None:
        """Make current and future calls of ``open`` and ``receive_into`` raise Interrupted. Idempotent."""
        self._interrupted.set()
        self._answers.put(Interrupted())
        with self._closing:
            if self._wake_sender.fileno() >= 0:
                self._wake_sender.send(b"!")

    def close(self) -> None:
        """Close the sockets. Idempotent."""
        with self._closing:
            for sock in (self._socket, self._wake_receiver, self._wake_sender):
                if sock is not None:
                    sock.close()

    def _resolve(self) -> _Addresses:
        def resolve() -> None:
            try:
                self._answers.put(socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM))
            except (OSError, ValueError) as error:
                self._answers.put(error)

        threading.Thread(target=resolve, name=f"resolve {self._host}", daemon=True).start()
        try:
            answer = self._answers.get(timeout=self._timeout_s)
        except queue.Empty:
            raise TimeoutError(f"{self._host!r} was not resolved within {self._timeout_s:g} s") from None
        if isinstance(answer, ValueError):
            raise OSError(f"{self._host!r} is not a valid host name: {answer}") from answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _connect(self, candidate: socket.socket, address: Any) -> None:
        candidate.setblocking(False)
        # Without keepalive, a client that only receives never notices that the server's machine is gone.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        error = candidate.connect_ex(address)
        if error == errno.EINPROGRESS:
            if not self._poll(candidate, select.POLLOUT, self._timeout_s):
                raise TimeoutError(errno.ETIMEDOUT, f"no answer within {self._timeout_s:g} s")
            error = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        # The kernel may choose the target port as the local port: TCP then connects the socket to itself.
        if candidate.getsockname() == candidate.getpeername():
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    def _poll(self, watched: socket.socket, event: int, timeout_s: float | None) -> bool:
        """Wait until the socket is ready; return False after the timeout.

        Raises:
            Interrupted: ``interrupt`` was called.
        """
        poll = select.poll()
        poll.register(watched, event)
        poll.register(self._wake_receiver, select.POLLIN)
        ready = poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000)
        if self._interrupted.is_set():
            raise Interrupted
        return bool(ready)
