"""``ClientSockets``: the sockets of a client's connections, to close them before the event loop ends.

With TLS a connection is closed once the server has answered its farewell. A session does not wait for that, and an
event loop that ends meanwhile leaves the socket open.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

_CLOSE_S = 1.0
_POLL_S = 0.001


class ClientSockets:
    """Makes the sockets of a ``TCPConnector``. Used on the event loop only."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def create(self, address: tuple[Any, ...]) -> socket.socket:
        """Create a socket: the argument ``socket_factory``."""
        family, kind, protocol, *_ = address
        self._sockets = [each for each in self._sockets if each.fileno() >= 0]
        self._sockets.append(made := socket.socket(family, kind, protocol))
        return made

    async def close(self) -> None:
        """End the connections, and wait up to a second until the event loop has closed their sockets."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while any(each.fileno() >= 0 for each in self._sockets):
                    await asyncio.sleep(_POLL_S)
