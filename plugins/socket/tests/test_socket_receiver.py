"""The receiver ``socket`` under a real supervisor, with real connections."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock_socket import SocketOptions, SocketReceiver, splitting_receiver
from penstock_socket.connection import Connection
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Fountain, Server

    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]


def receiver(server: Server, **options: Any) -> SocketReceiver:
    return SocketReceiver(SocketOptions("127.0.0.1", server.port, **options))


def test_line_arrives_while_the_connection_is_up_and_quiet(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    for number in range(1, 4):
        peer.sendall(b"line\n")
        launched.until_records(["line"] * number)


def test_partial_line_is_not_stored(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    # Cut inside of a character, and what is whole is stored in between.
    peer.sendall(b"first\nsec" + "ö".encode()[:1])
    launched.until_records(["first"])
    peer.sendall("ö".encode()[1:] + b"nd\n")
    launched.until_records(["first", "secönd"])


def test_last_line_needs_no_newline_and_the_receiver_reconnects(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    peer.sendall(b"a\nb")
    peer.close()
    launched.until_records(["a", "b"])
    launched.until(lambda: bool(launched.ends))
    assert launched.ends[0].endswith("Socket data stream had no more data")
    server.accept().sendall(b"c\n")
    launched.until_records(["a", "b", "c"])
    assert launched.errors == []


def test_refused_connection_is_tried_again_until_a_server_is_there(launch: Launch, refusing: Server) -> None:
    launched = launch(receiver(refusing))
    launched.until(lambda: len(launched.errors) >= 2)
    (error,) = set(launched.errors)
    assert error.startswith(f"Error connecting to 127.0.0.1:{refusing.port} - ConnectionRefusedError: ")
    refusing.listen().accept().sendall(b"at last\n")
    launched.until_records(["at last"])


def test_reset_loses_no_line_that_was_received(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server))
    peer = server.accept()
    peer.sendall(b"before\nnot whole")
    launched.until_records(["before"])
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    launched.until(lambda: bool(launched.errors))
    (error,) = launched.errors
    assert re.match(r"Error receiving data from 127\.0\.0\.1:\d+ - ConnectionResetError: ", error)
    server.accept().sendall(b"after\n")
    launched.until_records(["before", "after"])


@pytest.mark.parametrize(
    ("encoding_errors", "lines", "words"),
    [
        ("replace", ["good", "b\ufffdd", "\ufffd", "good"], "with U+FFFD instead: 2 (2 in total)"),
        ("refuse", ["good", "good"], "dropped: 2 (2 in total)"),
    ],
)
def test_line_that_is_not_utf8_is_counted(
    launch: Launch, server: Server, encoding_errors: str, lines: list[str], words: str
) -> None:
    launched = launch(receiver(server, encoding_errors=encoding_errors))
    peer = server.accept()
    peer.sendall(b"good\nb\xffd\n\xc3\ngood\n")
    launched.until_records(lines)
    launched.until(lambda: bool(launched.errors))
    assert launched.errors == [f"lines that are not UTF-8, {words}"]
    assert launched.ends == []


def test_line_that_is_too_long_is_counted(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, max_line_bytes=1000))
    peer = server.accept()
    peer.sendall(b"x" * 1000 + b"\n" + b"y" * 5_000_000 + b"\r\n" + b"z" * 1001 + b"\nok\n")
    launched.until_records(["x" * 1000, "ok"])
    launched.stop()
    assert launched.errors[-1].endswith("(2 in total)")
    assert all(error.startswith("lines longer than 1000 bytes, dropped: ") for error in launched.errors)


def test_counted_errors_are_reported_at_the_end_of_the_connection(launch: Launch, server: Server) -> None:
    launched = launch(receiver(server, encoding_errors="refuse"))
    peer = server.accept()
    peer.sendall(b"\xff\n")
    launched.until(lambda: len(launched.errors) == 1)
    peer.sendall(b"\xff\n\xff\n")
    peer.close()
    launched.until(lambda: bool(launched.ends))
    assert launched.errors == [
        f"lines that are not UTF-8, dropped: {new}" for new in ("1 (1 in total)", "2 (3 in total)")
    ]


def test_stop_ends_connecting(launch: Launch, silent: Server) -> None:
    launched = launch(receiver(silent, connect_timeout=600))
    launched.stop()
    assert launched.errors == []


class Watch:
    """Sees every wait for bytes: how long it may take, and how many bytes had come before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._changed = threading.Condition()
        self._received = 0
        self._waits: list[tuple[int, float | None]] = []
        original = Connection.receive_into

        def receive_into(connection: Connection, buffer: memoryview, timeout_s: float | None) -> int | None:
            with self._changed:
                self._waits.append((self._received, timeout_s))
                self._changed.notify_all()
            received = original(connection, buffer, timeout_s)
            self._received += received or 0
            return received

        monkeypatch.setattr(Connection, "receive_into", receive_into)

    def until(self, condition: Callable[[int, float | None], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(condition(*wait) for wait in self._waits), 120)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_stop_stores_whole_lines(launch: Launch, server: Server, watch: Watch) -> None:
    launched = launch(receiver(server), settings={"spark.streaming.blockInterval": "1h"})
    server.accept().sendall(b"a\nb\nnot whole")
    watch.until(lambda received, _: received == 13)
    assert launched.records == []
    launched.stop()
    assert launched.records == ["a", "b"]


def test_quiet_source_is_waited_for_without_polling(launch: Launch, server: Server, watch: Watch) -> None:
    launched = launch(receiver(server))
    server.accept().sendall(b"a\nbegun")
    launched.until_records(["a"])
    # A block interval after the last bytes, also when they were no whole line.
    watch.until(lambda received, timeout_s: received == 7 and timeout_s is None)


# Who waits for the clock when a rate limit holds: the limiter, and the block generator's timer.
HELD = 2


@pytest.mark.parametrize(("line_bytes", "rate"), [(20, 10), (37, 1000), (100, 1000), (730, 1000)])
def test_each_block_has_the_records_of_one_block_interval(
    launch: Launch, fountain: Fountain, monkeypatch: pytest.MonkeyPatch, line_bytes: int, rate: int
) -> None:
    fountain.line_bytes = line_bytes
    # Without a busy machine's pauses, after which what has come is stored.
    monkeypatch.setattr(splitting_receiver, "time", SimpleNamespace(monotonic=lambda: 0.0))
    clock = ManualClock()
    settings = {"spark.streaming.blockInterval": "100ms", "spark.streaming.receiver.maxRate": str(rate)}
    launched = launch(SocketReceiver(SocketOptions("nowhere", 1)), clock, settings)
    for _ in range(200):
        clock.await_waiters(HELD)
        clock.advance(100)
    clock.await_waiters(HELD)
    count = rate // 10
    assert {block.num_records for block in launched.blocks} == {count}
    # What waits besides: a block that the limiter holds, and what the last read had besides it.
    assert fountain.received_bytes <= (len(launched.blocks) + 2) * count * line_bytes * 1.1 + 2 * 256


def test_stop_loses_no_record_before_one_that_is_stored(launch: Launch, fountain: Fountain) -> None:
    fountain.line_bytes = 37
    clock = ManualClock()
    settings = {"spark.streaming.blockInterval": "100ms", "spark.streaming.receiver.maxRate": "1000"}
    launched = launch(SocketReceiver(SocketOptions("nowhere", 1)), clock, settings)
    for _ in range(50):
        clock.await_waiters(HELD)
        clock.advance(10)
    clock.await_waiters(HELD)
    clock.advance(60)
    before = len(launched.blocks)
    launched.stop()
    assert len(launched.blocks) == before


def test_stop_ends_a_wait_for_the_rate_limit(launch: Launch, fountain: Fountain) -> None:
    clock = ManualClock()
    launched = launch(SocketReceiver(SocketOptions("nowhere", 1)), clock, {"spark.streaming.receiver.maxRate": "1"})
    clock.await_waiters(HELD)
    launched.stop()
    assert launched.errors == []


@pytest.mark.parametrize(("max_rate", "is_held"), [("10", True), ("0", False)])
def test_rate_limit_holds_the_server(launch: Launch, server: Server, max_rate: str, is_held: bool) -> None:
    launch(receiver(server), ManualClock(), {"spark.streaming.receiver.maxRate": max_rate})
    peer = server.accept()
    total = memoryview((b"x" * 99 + b"\n") * 640_000)
    sent = 0
    # Without progress. Only a server that is held gets so far.
    peer.settimeout(2 if is_held else 60)
    with contextlib.suppress(TimeoutError):
        while sent < len(total):
            sent += peer.send(total[sent : sent + (1 << 20)])
    assert (sent < len(total)) is is_held


def test_blocks_are_large_without_a_rate_limit(launch: Launch, fountain: Fountain) -> None:
    launched = launch(SocketReceiver(SocketOptions("nowhere", 1)), settings={"spark.streaming.blockInterval": "1h"})
    launched.until(lambda: len(launched.blocks) >= 3)
    launched.stop()
    for block in launched.blocks[:3]:
        assert 16 << 20 <= block.table.nbytes < 18 << 20
        # A task that reads it makes Python objects of one record batch at a time.
        assert max(batch.num_rows for batch in block.table.to_batches()) < 16_384
