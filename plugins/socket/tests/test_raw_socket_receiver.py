"""The receiver ``raw-socket`` under a real supervisor, with real connections."""

from __future__ import annotations

import pickle
import re
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock_socket import RawSocketOptions, RawSocketReceiver

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Server

    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]


def receiver(server: Server, **options: Any) -> RawSocketReceiver:
    return RawSocketReceiver(RawSocketOptions("127.0.0.1", server.port, **options))


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def test_frames_arrive_as_bytes_in_order(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    bodies = [b"", b"\n\r\0\xff", *(b"%d" % number for number in range(50_000))]
    server.accept().sendall(framed(*bodies))
    launched.until_records(bodies)
    assert {type(record) for record in launched.records} == {bytes}
    assert launched.errors == []


def test_single_bytes_are_assembled(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    for byte in framed(b"one", b"", b"three"):
        peer.send(bytes([byte]))
    launched.until_records([b"one", b"", b"three"])


def test_frame_longer_than_the_buffers_arrives(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    body = bytes(range(256)) * 20_000
    server.accept().sendall(framed(b"before", body, b"after"))
    launched.until_records([b"before", body, b"after"])


def test_end_between_frames_restarts_without_error(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    peer.sendall(framed(b"first"))
    peer.close()
    server.accept().sendall(framed(b"second"))
    launched.until_records([b"first", b"second"])
    assert launched.ends[0].endswith("Socket data stream had no more data")
    assert launched.errors == []


def test_end_inside_a_frame_is_an_error(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    peer.sendall(framed(b"first") + framed(b"torn")[:6])
    peer.close()
    server.accept().sendall(framed(b"second"))
    launched.until_records([b"first", b"second"])
    (error,) = launched.errors
    assert re.match(r"Error receiving data from 127\.0\.0\.1:\d+ - EOFError: ", error)


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


def test_refused_connection_is_tried_again_until_a_server_is_there(launch: Launch, refusing: Server) -> None:
    launched = launch(receiver(refusing))
    launched.until(lambda: len(launched.errors) >= 2)
    (error,) = set(launched.errors)
    assert error.startswith(f"Error connecting to 127.0.0.1:{refusing.port} - ConnectionRefusedError: ")
    refusing.listen().accept().sendall(framed(b"at last"))
    launched.until_records([b"at last"])


def test_stopping_wakes_a_read_inside_a_frame(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    server.accept().sendall(framed(b"whole") + framed(b"not whole")[:7])
    launched.until_records([b"whole"])
    launched.stop()
    assert launched.records == [b"whole"]
    assert launched.errors == []


def test_reset_is_an_error(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    peer.sendall(framed(b"before"))
    launched.until_records([b"before"])
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    server.accept().sendall(framed(b"after"))
    launched.until_records([b"before", b"after"])
    (error,) = launched.errors
    assert re.match(r"Error receiving data from 127\.0\.0\.1:\d+ - ConnectionResetError: ", error)


def test_receiver_can_be_pickled(launch: Launch, server: Server) -> None:
    launched = launch(pickle.loads(pickle.dumps(receiver(server))))
    server.accept().sendall(framed(b"here"))
    launched.until_records([b"here"])
