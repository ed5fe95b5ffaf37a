"""The feeder that serves lines over TCP."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from penstock_testing import TcpFeeder


@pytest.fixture
def feeder() -> Iterator[TcpFeeder]:
    with TcpFeeder() as feeder:
        yield feeder


def _connect(feeder: TcpFeeder) -> socket.socket:
    return socket.create_connection(("127.0.0.1", feeder.port), timeout=30)


def _read_to_reset(connection: socket.socket) -> bytes:
    pieces = list[bytes]()
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


def test_connection_gets_what_was_put_before_and_after_it(feeder: TcpFeeder) -> None:
    feeder.put(["a"])
    with _connect(feeder) as connection:
        feeder.put(["é", ""])
        assert connection.makefile("rb").read(6) == b"a\n\xc3\xa9\n\n"
        assert feeder.polls() == 1


def test_cut_resets_the_connection_and_refuses_new_ones_until_it_heals(feeder: TcpFeeder) -> None:
    with _connect(feeder) as connection:
        feeder.put(["first"])
        assert connection.recv(100) == b"first\n"
        feeder.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    with pytest.raises(ConnectionRefusedError):
        _connect(feeder)
    feeder.put(["second"])
    feeder.heal()
    with _connect(feeder) as connection:
        assert connection.recv(100) == b"second\n"


def test_every_record_is_read_once_or_again_after_a_cut(feeder: TcpFeeder) -> None:
    records = [f"{number:09}" for number in range(300_000)]
    with _connect(feeder) as connection:
        feeder.put(records)
        before = connection.recv(10_000, socket.MSG_WAITALL)
        feeder.cut()
        before += _read_to_reset(connection)
    feeder.heal()
    with _connect(feeder) as connection:
        feeder.end()
        after = connection.makefile("rb").read()
    whole = before[: before.rindex(b"\n")].split(b"\n")
    assert [int(line) for line in whole] == list(range(len(whole)))
    assert [int(line) for line in after.split()] == list(range(len(whole), 300_000))


def test_paused_server_accepts_and_sends_nothing_until_it_heals(feeder: TcpFeeder) -> None:
    feeder.pause()
    feeder.put(["late"])
    with _connect(feeder) as connection:
        connection.settimeout(0.02)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(30)
        feeder.heal()
        assert connection.recv(100) == b"late\n"


def test_end_closes_the_connection_after_the_last_record(feeder: TcpFeeder) -> None:
    with _connect(feeder) as connection:
        feeder.put(["last"])
        feeder.put_bytes(b"unterminated")
        feeder.end()
        assert connection.makefile("rb").read() == b"last\nunterminated"


def test_taken_counts_only_what_was_read(feeder: TcpFeeder) -> None:
    records = [f"{number:09}" for number in range(30_000)]
    with _connect(feeder) as connection:
        feeder.put(records)
        assert feeder.taken() == 0
        assert len(connection.recv(10_000, socket.MSG_WAITALL)) == 10_000
        assert feeder.taken() == 1000
