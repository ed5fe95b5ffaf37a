"""``BrokerTraffic``: which messages the clients of a broker got and acknowledged, as wiretaps read it on the wire."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from penstock_brokers.tcp_proxy import Wiretap

#: Names a message on its connection: channel, and number in it; the channel is 0 in protocols without channels.
Tag = tuple[int, int]


class BrokerTraffic(ABC):
    """The messages of all connections: write ``wiretap`` for a protocol. Thread-safe.

    Attributes:
        delivered: the number of messages that clients got.
        refused: the number of acknowledgements for messages that this connection had not, or no longer, in flight.
        heartbeats: the number of signs of life of clients.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Messages in flight, by open connection.
        self._unacknowledged: dict[BrokerWiretap, dict[Tag, bytes]] = {}
        self._acknowledged: list[bytes] = []
        self.delivered = 0
        self.refused = 0
        self.heartbeats = 0

    @abstractmethod
    def wiretap(self) -> BrokerWiretap:
        """A wiretap for a new connection: the argument ``tap`` of a ``TcpProxy``."""

    def acknowledged(self) -> list[bytes]:
        """The bodies that clients have acknowledged, in this order."""
        with self._lock:
            return list(self._acknowledged)

    def in_flight(self) -> int:
        """The number of messages that are not acknowledged, on all open connections."""
        with self._lock:
            return sum(map(len, self._unacknowledged.values()))

    def open(self, tap: BrokerWiretap) -> None:
        """Note a new connection."""
        with self._lock:
            self._unacknowledged[tap] = {}

    def deliver(self, tap: BrokerWiretap, tag: Tag, body: bytes) -> None:
        """Note a message that a client got."""
        with self._lock:
            self.delivered += 1
            if tap in self._unacknowledged:
                self._unacknowledged[tap][tag] = body

    def acknowledge(self, tap: BrokerWiretap, tag: Tag, *, multiple: bool = False) -> None:
        """Note the acknowledgement of a message; ``multiple``: and of all earlier ones of its channel."""
        channel, number = tag
        with self._lock:
            waiting = self._unacknowledged.get(tap, {})
            self.refused += tag not in waiting
            tags = [each for each in waiting if each == tag or (multiple and each[0] == channel and each[1] < number)]
            self._acknowledged += [waiting.pop(each) for each in tags]

    def beat(self) -> None:
        """Count a sign of life of a client."""
        with self._lock:
            self.heartbeats += 1

    def close(self, tap: BrokerWiretap) -> None:
        """Forget a connection: what it had in flight is delivered again on another."""
        with self._lock:
            self._unacknowledged.pop(tap, None)


class BrokerWiretap(Wiretap):
    """Base of wiretaps that read a protocol, and note what they read.

    Args:
        traffic: traffic of all connections.
    """

    def __init__(self, traffic: BrokerTraffic) -> None:
        self.traffic = traffic
        traffic.open(self)

    def closed(self) -> None:
        self.traffic.close(self)
