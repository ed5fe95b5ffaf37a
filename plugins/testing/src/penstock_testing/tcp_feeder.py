"""``TcpFeeder``: a TCP server in this process from which a receiver under test reads lines.

The feeder's thread owns the sockets. The public methods hand it a command and wait until it has carried it out.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import queue
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from penstock_testing.feeder import Feeder, Message

T = TypeVar("T")

_HOST = "127.0.0.1"
_ANSWER_S = 10.0
_CHUNK_BYTES = 256 << 10
# linux/sockios.h: asks for the bytes that are not sent yet.
_SIOCOUTQNSD = 0x894B
# Closing such a socket resets the connection instead of ending it in order.
_RESET = struct.pack("ii", 1, 0)


class TcpFeeder(Feeder):
    r"""A server of lines of UTF-8 text; override ``encode``, ``sample`` and ``odd_records`` for another format.

    The feeder sends each record once, to the open connection. Bytes that have not reached the receiver's host at a cut
    go to the next connection, from the beginning of their record. Options: ``host`` and ``port``.

    Attributes:
        terminator: the bytes after each record.
    """

    terminator = b"\n"

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._commands: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        # All bytes that were put, and the offset at which each record ends.
        self._data = bytearray()
        self._ends = [0]
        # Bytes sent so far, on all connections together.
        self._sent = self._connections = 0
        self._state = "up"
        self._open = True
        self._peers: set[socket.socket] = set()
        self._listener = _bound(0)
        self.port: int = self._listener.getsockname()[1]
        self._listen()
        self._thread = threading.Thread(target=self._run, name="penstock kit TCP feeder", daemon=True)
        self._thread.start()

    def options(self) -> Mapping[str, Any]:
        return {"host": _HOST, "port": self.port}

    def encode(self, record: Any) -> bytes:
        return str(record).encode() + self.terminator

    def odd_records(self) -> list[Any]:
        return [record for record in super().odd_records() if "\n" not in record and not record.endswith("\r")]

    def put(self, records: Sequence[Any]) -> None:
        self._put_encoded([self.encode(record) for record in records])

    def put_bytes(self, data: bytes) -> None:
        def append() -> None:
            self._data.extend(data)

        self._call(append)

    def put_bad(self) -> Message | None:
        self._put_encoded([b"\xff\xfe\xfd" + self.terminator])
        return None

    def pause(self) -> None:
        self._call(lambda: setattr(self, "_state", "paused"))

    def cut(self) -> None:
        def cut() -> None:
            self._state = "cut"
            # The receiver reads the bytes in its own buffer before it notices the reset.
            self._sent = self._start_of(max(0, self._sent - sum(map(_unsent, self._peers))))
            for peer in list(self._peers):
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self._drop(peer)
            self._selector.unregister(self._listener)
            self._listener.close()
            # Bound and not listening: refuses connections, and keeps the port.
            self._listener = _bound(self.port)

        self._call(cut)

    def heal(self) -> None:
        def heal() -> None:
            if self._state == "cut":
                self._listen()
            self._state = "up"

        self._call(heal)

    def end(self) -> None:
        self._call(lambda: setattr(self, "_state", "ended"))

    def taken(self) -> int:
        return self._call(lambda: bisect.bisect_right(self._ends, self._read()) - 1)

    def polls(self) -> int:
        return self._connections

    def close(self) -> None:
        if self._thread.is_alive():
            self._call(lambda: setattr(self, "_open", False))
            self._thread.join(_ANSWER_S)

    # -- on the feeder's thread --

    def _run(self) -> None:
        while self._open:
            for key, _events in self._selector.select():
                if key.fileobj is self._wake_receiver:
                    self._carry_out()
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._peers:
                    self._serve(key.fileobj)
            for peer in list(self._peers):
                if self._state == "ended" and self._sent == len(self._data):
                    self._drop(peer)
                else:
                    self._selector.modify(peer, self._events())
        for sock in (*self._peers, self._listener, self._wake_receiver, self._wake_sender):
            sock.close()
        self._selector.close()

    def _events(self) -> int:
        has_data = self._state in {"up", "ended"} and self._sent < len(self._data)
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if has_data else 0)

    def _carry_out(self) -> None:
        self._wake_receiver.recv(4096)
        while True:
            try:
                command, answer = self._commands.get_nowait()
            except queue.Empty:
                return
            try:
                answer.set_result(command())
            except BaseException as error:
                answer.set_exception(error)

    def _listen(self) -> None:
        self._listener.listen()
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer, _address = self._listener.accept()
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections += 1
            if not self._peers:
                self._sent = self._start_of(self._sent)
            self._peers.add(peer)
            self._selector.register(peer, self._events())

    def _serve(self, peer: socket.socket) -> None:
        try:
            if self._events() & selectors.EVENT_WRITE:
                with contextlib.suppress(BlockingIOError):
                    self._sent += peer.send(self._data[self._sent : self._sent + _CHUNK_BYTES])
            # Whatever the receiver sends is discarded; an empty read means that it closed the connection.
            if not peer.recv(4096):
                self._drop(peer)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(peer)

    def _drop(self, peer: socket.socket) -> None:
        self._peers.discard(peer)
        self._selector.unregister(peer)
        peer.close()

    def _start_of(self, position: int) -> int:
        """The offset at which the record with the byte at this position begins."""
        return self._ends[bisect.bisect_right(self._ends, position) - 1]

    def _read(self) -> int:
        """The number of bytes that the receiver has read; those sent if the system does not say."""
        return max(0, self._sent - sum(_unread(peer) for peer in self._peers))

    # -- on other threads --

    def _put_encoded(self, pieces: Sequence[bytes]) -> None:
        def append() -> None:
            for piece in pieces:
                self._data += piece
                self._ends.append(len(self._data))

        self._call(append)

    def _call(self, command: Callable[[], T]) -> T:
        """Have the feeder's thread carry out a command; return its result."""
        answer: Future[T] = Future()
        self._commands.put((command, answer))
        self._wake_sender.send(b"!")
        return answer.result(_ANSWER_S)


def _bound(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((_HOST, port))
    return listener


def _unsent(peer: socket.socket) -> int:
    """The bytes of a connection that have not left this end's buffer; 0 if the system does not say.

    Bytes that left it and are not acknowledged yet are in the receiver's buffer, where they must not count again.
    """
    try:
        (waiting,) = struct.unpack("i", fcntl.ioctl(peer, _SIOCOUTQNSD, b"\0\0\0\0"))
    except OSError:
        return 0
    return int(waiting)


def _unread(peer: socket.socket) -> int:
    """The bytes of a connection that wait in this end's send buffer and in the receiver's receive buffer."""
    try:
        ours, theirs = peer.getsockname()[1], peer.getpeername()[1]
        lines = Path("/proc/net/tcp").read_text().splitlines()
    except OSError:
        return _unsent(peer)
    # Columns: number, local address, remote address, state, bytes to send:bytes to read, ...
    for columns in map(str.split, lines):
        if columns[1].endswith(f":{theirs:04X}") and columns[2].endswith(f":{ours:04X}"):
            return _unsent(peer) + int(columns[4].partition(":")[2], 16)
    return _unsent(peer)
