"""Seeded garbage, as strangers, port scans or broken callers may send it to a port."""

from __future__ import annotations

import pickle
import random
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from pyarrow import flight

from penstock.wire.token import Token, content_of

#: What was unpickled.
exploded: list[str] = []
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def explode(what: str) -> None:
    """Called by the pickle of a bomb, by name: a method of the list would be pickled with a copy of the list."""
    exploded.append(what)


class Bomb:
    """Records that it was unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return explode, ("a bomb",)


def _frame(kind: int, payload: bytes, *, length: int | None = None, stream: int = 0) -> bytes:
    """A frame of HTTP/2; ``length`` may lie."""
    return (
        struct.pack(">I", len(payload) if length is None else length)[1:]
        + bytes([kind, 0])
        + struct.pack(">I", stream)
        + payload
    )


def _raw(chance: random.Random) -> Iterator[bytes]:
    settings = _frame(4, b"")
    yield b""
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500)
    yield pickle.dumps(Bomb())
    yield _PREFACE[:11]
    yield _PREFACE
    yield _PREFACE + settings + chance.randbytes(1000)
    # 16 MB are said to follow, and 4 GB in a message.
    yield _PREFACE + settings + _frame(0, b"x", length=(1 << 24) - 1, stream=1)
    yield _PREFACE + settings + _frame(1, b"\x82\x86\x84", stream=1) + _frame(0, b"\0\xff\xff\xff\xff", stream=1)
    yield _PREFACE + settings + _frame(255, pickle.dumps(Bomb()), stream=1)
    for _ in range(20):
        yield chance.randbytes(chance.randrange(1, 5000))


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What endpoints have refused, in order."""
    refused = re.compile(r"(call without the application's token|message) refused")
    return [match[0] for record in caplog.records if (match := refused.search(record.getMessage()))]


def pelt(port: int, token: Token, action: str, address: str = "127.0.0.1") -> tuple[int, int]:
    """Send all garbage; return how many calls had no token, and how many calls with it had no valid message.

    Args:
        port: the endpoint's port.
        token: of the endpoint.
        action: an action that the endpoint serves.
        address: the endpoint's address.
    """
    chance = random.Random(7)
    for junk in _raw(chance):
        with socket.create_connection((address, port), timeout=10) as connection:
            connection.sendall(junk)
    bodies = [b"", b"{", b"null", b"[" * 100_000, pickle.dumps(Bomb()), b'{"stream_id": ' + b"9" * 10_000 + b"}"]
    bodies += [chance.randbytes(chance.randrange(1, 3000)) for _ in range(20)]

    def signed(message: str, body: bytes, by: Token = token) -> list[tuple[bytes, bytes]]:
        return by.sign(content_of(message, body)).headers()

    bomb = pickle.dumps(Bomb())
    strangers = [[], [(b"authorization", b"Bearer x")], signed(action, bomb, Token.generate())]
    with flight.FlightClient(f"grpc://{address}:{port}") as client:
        for headers in strangers:
            _refused(client, action, bomb, headers)
        for body in bodies:
            _refused(client, action, body, signed(action, body))
        _refused(client, "NoSuchMessage", bomb, signed("NoSuchMessage", bomb))
        # No name of a block leads anywhere else.
        for ticket in (pickle.dumps(Bomb()), b"../../etc/passwd", b"\0", chance.randbytes(300)):
            with pytest.raises(flight.FlightServerError):
                client.do_get(flight.Ticket(ticket), _options(signed("", ticket))).read_all()
    return len(strangers), len(bodies) + 1


def _refused(client: flight.FlightClient, action: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(flight.FlightError):
        list(client.do_action(flight.Action(action, body), _options(headers)))


def _options(headers: list[tuple[bytes, bytes]]) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(timeout=10, headers=headers)
