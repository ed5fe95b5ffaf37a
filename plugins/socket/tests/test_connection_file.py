"""A connection as a binary file, which a converter reads."""

from __future__ import annotations

import io
from typing import Any

import pytest

from penstock_socket.connection_file import ConnectionFile


class Given:
    """In place of a connection: gives what it was given, then the end."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    def receive_into(self, buffer: memoryview, timeout_s: float | None) -> int:
        part = self._parts.pop(0) if self._parts else b""
        buffer[: len(part)] = part
        return len(part)


class NoBatcher:
    num_bytes = 0

    def store_or_wait_s(self) -> None:
        return None


def test_connection_file_is_read_only() -> None:
    raw: Any = ConnectionFile(Given(b"ab", b"cd\nef"), NoBatcher())  # type: ignore[arg-type]  # what is used of them
    file = io.BufferedReader(raw, 16)
    assert (file.readable(), file.writable(), file.seekable()) == (True, False, False)
    assert raw.readinto(bytearray()) == 0
    assert not raw.ended
    assert file.read1(3) == b"ab"
    assert file.readline() == b"cd\n"
    assert file.read() == b"ef"
    assert file.read() == b""
    assert raw.ended
    with pytest.raises(io.UnsupportedOperation):
        file.fileno()
    with pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
