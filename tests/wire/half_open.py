"""Peers without the token that hold a connection: they only connect, or speak HTTP/2 and never finish a call."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS, _PING = 1, 4, 6
_ACK = 1
_END_HEADERS = 4


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _header(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


_UNFINISHED_CALL = _frame(
    _HEADERS,
    _END_HEADERS,
    1,
    _header(b":method", b"POST")
    + _header(b":scheme", b"http")
    + _header(b":path", b"/arrow.flight.protocol.FlightService/DoAction")
    + _header(b":authority", b"x")
    + _header(b"content-type", b"application/grpc")
    + _header(b"te", b"trailers"),
)


class Stranger:
    """A connection to a port; with ``calls`` it begins a call that it never ends, and answers every PING."""

    def __init__(self, port: int, *, calls: bool = False, address: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((address, port), timeout=60)
        #: Its address and port, as the endpoint sees them.
        self.peer: tuple[str, int] = self._socket.getsockname()[:2]
        #: Set when the endpoint has closed the connection.
        self.closed = threading.Event()
        if calls:
            self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _UNFINISHED_CALL)
        self._answers = calls
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        received = b""
        with suppress(OSError):
            while data := self._socket.recv(65536):
                received += data
                while len(received) >= 9:
                    length = int.from_bytes(received[:3], "big")
                    if len(received) < 9 + length:
                        break
                    kind, flags, payload = received[3], received[4], received[9 : 9 + length]
                    received = received[9 + length :]
                    if self._answers and kind in (_PING, _SETTINGS) and not flags & _ACK:
                        self._socket.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        self.closed.set()

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
