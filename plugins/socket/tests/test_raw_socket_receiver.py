"""The receiver ``raw-socket`` under a real supervisor, with real connections."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from plugins.socket.tests.conftest import framed

from penstock_socket import RawSocketOptions, RawSocketReceiver

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Server

    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]


def receiver(server: Server, **options: Any) -> RawSocketReceiver:
    return RawSocketReceiver(RawSocketOptions("127.0.0.1", server.port, **options))


def test_frame_longer_than_the_buffers_arrives(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    body = bytes(range(256)) * 20_000
    server.accept().sendall(framed(b"before", body, b"after"))
    launched.until_records([b"before", body, b"after"])


@pytest.mark.parametrize(("rest", "is_error"), [(b"", False), (framed(b"torn")[:6], True)], ids=["between", "inside"])
def test_connection_that_ends_inside_a_frame_is_an_error(
    launch: Launch, server: Server, rest: bytes, is_error: bool
) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    peer.sendall(framed(b"first") + rest)
    peer.close()
    server.accept().sendall(framed(b"second"))
    launched.until_records([b"first", b"second"])
    if is_error:
        (error,) = launched.errors
        assert re.match(r"Error receiving data from 127\.0\.0\.1:\d+ - EOFError: ", error)
    else:
        assert launched.errors == []
        assert launched.ends[0].endswith("Socket data stream had no more data")


@pytest.mark.parametrize("length", [-1, -(1 << 31), (1 << 31) - 1, 1001])
def test_invalid_frame_length_is_an_error_and_reconnects(launch: Launch, server: Server, length: int) -> None:
    launched = launch(receiver(server, max_frame_bytes=1000))
    peer = server.accept()
    peer.sendall(framed(b"good", b"x" * 1000) + struct.pack(">i", length) + framed(b"not trusted"))
    server.accept().sendall(framed(b"after"))
    launched.until_records([b"good", b"x" * 1000, b"after"])
    (error,) = launched.errors
    assert re.match(r"Error receiving data from 127\.0\.0\.1:\d+ - ValueError: ", error)
    (reported,) = launched.tracebacks
    assert f"a frame of {length} bytes is announced" in reported
    # The line to the hostile peer is cut.
    with pytest.raises(ConnectionError):
        peer.sendall(b"x" * 100_000_000)


def test_stopping_wakes_a_read_inside_a_frame(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    server.accept().sendall(framed(b"whole") + framed(b"not whole")[:7])
    launched.until_records([b"whole"])
    launched.stop()
    assert launched.records == [b"whole"]
    assert launched.errors == []
