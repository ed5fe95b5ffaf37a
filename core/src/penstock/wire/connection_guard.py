"""``ConnectionGuard``: disconnects peers of a port that make no authenticated call.

gRPC has no limit for a peer that connects and sends nothing, or never ends a call, and its shutdown waits for such
peers. The guard shuts down their sockets.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import unquote

import psutil

from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("wire")

# Maximum time for the first authenticated call of a connection, and maximum number of connections without one.
_STRANGER_S = 10.0
_MAX_STRANGERS = 100
_CHECK_S = 5.0
_THROTTLE_S = 10

#: The address and port of a peer.
Peer = tuple[str, int]


class ConnectionGuard:
    """Watches the connections of a port until ``stop``."""

    def __init__(self, port: int) -> None:
        self._port = port
        # Peers that made an authenticated call, by gRPC's names. The endpoint's threads add them.
        self._callers: dict[str, Peer] = {}
        self._closed = 0
        self._stopping = threading.Event()
        EngineThread(f"connections of port {port}", self._watch).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()

    def note_caller(self, peer: str) -> None:
        """Note that a peer, named as gRPC does, made an authenticated call."""
        if peer not in self._callers:
            host, _colon, port = unquote(peer.partition(":")[2]).rpartition(":")
            self._callers[peer] = _peer(host.strip("[]"), int(port))

    def connections(self) -> dict[int, Peer]:
        """The connections of the port: descriptor and peer."""
        try:
            connections = psutil.Process().net_connections("tcp")
        except (psutil.Error, OSError) as error:
            log.warning("connections not listed", port=self._port, reason=str(error), throttle_s=_THROTTLE_S)
            return {}
        return {
            connection.fd: _peer(*connection.raddr)
            for connection in connections
            if connection.raddr and connection.laddr.port == self._port
        }

    def disconnect(self, *, callers: bool = False) -> None:
        """Disconnect all peers that made no authenticated call, with ``callers`` all others as well."""
        spared = set() if callers else set(self._callers.values())
        self._disconnect(set(self.connections().values()) - spared)

    def _watch(self) -> None:
        # When each peer without an authenticated call was first seen, in monotonic seconds.
        strangers: dict[Peer, float] = {}
        while not self._stopping.wait(_CHECK_S):
            earlier, now = dict(self._callers), time.monotonic()
            peers = set(self.connections().values())
            if not peers:
                # Possibly they could not be listed: the callers among them must stay known.
                continue
            # Peers that called after the connections were listed are still callers.
            for name in [name for name, peer in earlier.items() if peer not in peers]:
                del self._callers[name]
            strangers = {peer: strangers.get(peer, now) for peer in peers - set(self._callers.values())}
            by_age = sorted(strangers, key=strangers.__getitem__)
            too_many = by_age[: max(len(by_age) - _MAX_STRANGERS, 0)]
            self._disconnect({*too_many, *(peer for peer in by_age if now - strangers[peer] >= _STRANGER_S)})

    def _disconnect(self, peers: set[Peer]) -> None:
        if not peers:
            return
        for descriptor, peer in self.connections().items():
            if peer in peers:
                # The descriptor may belong to another connection by now, so the peer of its copy is checked.
                with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
                    if _peer(*connection.getpeername()[:2]) == peer:
                        connection.shutdown(socket.SHUT_RDWR)
                        self._closed += 1
        log.warning("connections closed", port=self._port, closed=self._closed, throttle_s=_THROTTLE_S)


def _peer(host: str, port: int) -> Peer:
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address), port
