"""``Connection``: one outgoing TCP connection whose every wait another thread can end.

Owns the socket. Never retries and never looks at the data. All runs on the receiver's thread but ``interrupt``, which
any thread may call. A name is resolved on a short-lived daemon thread, because nothing can end ``getaddrinfo``.
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
    """``interrupt`` was called. No error: it is how a wait ends that was called off.

    Nothing that handles errors should take it for one: a program's function that reads may do so.
    """


class Connection:
    """A connection to a server.

    Args:
        host: name or address.
        port: of the server.
        timeout_s: longest wait for the name to be resolved, and for each of its addresses to answer.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._socket: socket.socket | None = None
        # What ends a wait in poll: a byte sent from one to the other.
        self._wake_receiver, self._wake_sender = socket.socketpair()
        # What ends the wait for the name; holds the error that ended it otherwise.
        self._answers: queue.SimpleQueue[_Addresses | BaseException] = queue.SimpleQueue()
        self._interrupted = threading.Event()
        # Closing and interrupting exclude each other: the byte must not go to a descriptor that has a new owner.
        self._closing = threading.Lock()

    def open(self) -> None:
        """Connect to the first address that answers.

        Raises:
            Interrupted: ``interrupt`` was called, before or meanwhile.
            OSError: none answers; the last address's error.
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
            timeout_s: longest wait, ``None`` for no limit.

        Returns:
            How many bytes, 0 at the end of the stream, ``None`` when nothing came in time.

        Raises:
            Interrupted: ``interrupt`` was called.
            OSError: the connection broke.
        """
        assert self._socket is not None
        while not self._interrupted.is_set():
            try:
                # First without a wait: under load there is something nearly always.
                return self._socket.recv_into(buffer)
            except BlockingIOError:
                if not self._poll(self._socket, select.POLLIN, timeout_s):
                    return None
        raise Interrupted

    def interrupt(self) -> None:
        """End the wait of ``open`` and ``receive_into``, now and from now on. Harmless when repeated or late."""
        self._interrupted.set()
        self._answers.put(Interrupted())
        with self._closing:
            if self._wake_sender.fileno() >= 0:
                self._wake_sender.send(b"!")

    def close(self) -> None:
        """Close all. Harmless when repeated."""
        with self._closing:
            for each in (self._socket, self._wake_receiver, self._wake_sender):
                if each is not None:
                    each.close()

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
            raise OSError(f"{self._host!r} is not the name of a host: {answer}") from answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _connect(self, candidate: socket.socket, address: Any) -> None:
        candidate.setblocking(False)
        # Who only receives never learns otherwise that the server's machine is gone.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        error = candidate.connect_ex(address)
        if error == errno.EINPROGRESS:
            if not self._poll(candidate, select.POLLOUT, self._timeout_s):
                raise TimeoutError(errno.ETIMEDOUT, f"no answer within {self._timeout_s:g} s")
            error = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        # A local port that nobody serves can be drawn as this end's own: TCP then connects the socket to itself.
        if candidate.getsockname() == candidate.getpeername():
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    def _poll(self, watched: socket.socket, event: int, timeout_s: float | None) -> bool:
        """Wait until the socket is ready; say whether it is.

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
