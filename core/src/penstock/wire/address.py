"""Addresses: this host's own, as another one sees it.

Owns nothing. May be asked on any thread.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def address_towards(location: str) -> str:
    """The address of this host on the way to another: loopback for the driver of a local program.

    Args:
        location: of an endpoint there.
    """
    parts = urlsplit(location)
    family, kind, _protocol, _name, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        # Sends nothing: a datagram socket only chooses its way.
        probe.connect(address)
        return str(probe.getsockname()[0])
