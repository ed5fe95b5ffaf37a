"""Receivers that read lines of text, length-prefixed frames, or a converter's records from a TCP server."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import ReceiverSpec, hookimpl
from penstock_socket.raw_socket_receiver import RawSocketOptions, RawSocketReceiver
from penstock_socket.socket_receiver import SocketOptions, SocketReceiver
from penstock_socket.socket_stream_receiver import SocketStreamOptions, SocketStreamReceiver

__all__ = [
    "RawSocketOptions",
    "RawSocketReceiver",
    "SocketOptions",
    "SocketReceiver",
    "SocketStreamOptions",
    "SocketStreamReceiver",
    "receivers",
]


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receivers ``socket``, ``raw-socket`` and ``socket-stream``."""
    return (
        ReceiverSpec("socket", SocketReceiver, SocketOptions, "lines of UTF-8 text from a TCP server"),
        ReceiverSpec("raw-socket", RawSocketReceiver, RawSocketOptions, "length-prefixed frames from a TCP server"),
        ReceiverSpec(
            "socket-stream",
            SocketStreamReceiver,
            SocketStreamOptions,
            "what a function reads from a TCP server",
        ),
    )
