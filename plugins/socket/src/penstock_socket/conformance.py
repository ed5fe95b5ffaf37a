"""Conformance suites of the receivers of this distribution, for ``penstock plugins check``."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

from penstock_testing import Capabilities, Feeder, ReceiverSuite, TcpFeeder

_LIMIT = 150_000


class LineFeeder(TcpFeeder):
    """Serves lines to a receiver with a limit."""

    def oversize(self) -> tuple[Any, str]:
        return "x" * (_LIMIT + 1), "dropped"


class FrameFeeder(TcpFeeder):
    """Serves length-prefixed frames."""

    terminator = b""

    def encode(self, record: Any) -> bytes:
        return struct.pack(">i", len(record)) + bytes(record)

    def sample(self, rng: random.Random, count: int) -> list[bytes]:
        return [f"{index} {rng.getrandbits(32):x}".encode() for index in range(count)]

    def odd_records(self) -> list[bytes]:
        return [b"", b"\0", b"\r\n", b"\xff\xfe", b"\0\0\0\1", bytes(range(256)) * 400]

    def large(self, rng: random.Random, count: int) -> list[bytes]:
        return [record + bytes(20_000) for record in self.sample(rng, count)]

    def oversize(self) -> tuple[Any, str]:
        # After a frame above the limit, the receiver connects again.
        return bytes(_LIMIT + 1), "error"

    # Every frame is a record. A wrong length is not a bad record: it ends the stream.
    put_bad = Feeder.put_bad


class ConverterFeeder(TcpFeeder):
    """Serves lines to a converter, which handles bad lines itself."""

    put_bad = Feeder.put_bad


def _lines(file: BinaryIO) -> Iterator[str]:
    for line in file:
        yield line.decode().removesuffix("\n")


class SocketSuite(ReceiverSuite):
    """The receiver ``socket``."""

    name = "socket"
    feeder = LineFeeder
    options: ClassVar = {"max_line_bytes": _LIMIT, "encoding_errors": "refuse"}
    capabilities = Capabilities(arrow=True)


class RawSocketSuite(ReceiverSuite):
    """The receiver ``raw-socket``."""

    name = "raw-socket"
    feeder = FrameFeeder
    options: ClassVar = {"max_frame_bytes": _LIMIT}
    capabilities = Capabilities(arrow=True)


class SocketStreamSuite(ReceiverSuite):
    """The receiver ``socket-stream`` with a converter that reads lines."""

    name = "socket-stream"
    feeder = ConverterFeeder
    options: ClassVar = {"converter": _lines}
