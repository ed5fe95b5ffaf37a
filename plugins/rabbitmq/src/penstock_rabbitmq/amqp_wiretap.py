"""``AmqpWiretap``: reads AMQP 0-9-1 on the wire, to know which messages a client got and which it has acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from penstock_brokers.tcp_proxy import Wiretap

_PROTOCOL_HEADER = b"AMQP"
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_BASIC_DELIVER, _BASIC_ACK = (60, 60), (60, 80)


class AmqpTraffic:
    """What the clients of a broker got and acknowledged, over all connections. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acknowledged: list[bytes] = []
        self._taps: list[AmqpWiretap] = []
        #: The number of messages that clients got.
        self.delivered = 0
        #: The number of heartbeats of clients.
        self.heartbeats = 0

    def acknowledged(self) -> list[bytes]:
        """The bodies that clients have acknowledged, in this order."""
        with self._lock:
            return list(self._acknowledged)

    def wiretap(self) -> AmqpWiretap:
        """A wiretap for a new connection."""
        self._taps.append(AmqpWiretap(self))
        return self._taps[-1]

    def in_flight(self) -> int:
        """The number of messages that are not acknowledged, over all connections."""
        return sum(tap.in_flight for tap in self._taps)

    def add_delivered(self) -> None:
        """Count a message that a client got."""
        with self._lock:
            self.delivered += 1

    def add_heartbeat(self) -> None:
        """Count a heartbeat of a client."""
        with self._lock:
            self.heartbeats += 1

    def add_acknowledged(self, bodies: list[bytes]) -> None:
        """Note messages that a client has acknowledged."""
        with self._lock:
            self._acknowledged += bodies


class _Channel:
    """The deliveries on one channel that are not acknowledged."""

    def __init__(self) -> None:
        self.unacknowledged: dict[int, bytes] = {}
        self.delivery_tag = 0
        self.missing_bytes = 0
        self.body = bytearray()


class AmqpWiretap(Wiretap):
    """Reads the frames of one connection.

    Args:
        traffic: what the connections have in common.
    """

    def __init__(self, traffic: AmqpTraffic) -> None:
        self._traffic = traffic
        self._client_bytes = bytearray()
        self._server_bytes = bytearray()
        self._channels: dict[int, _Channel] = {}

    @property
    def in_flight(self) -> int:
        """The number of messages that are not acknowledged."""
        return sum(len(channel.unacknowledged) for channel in list(self._channels.values()))

    def from_server(self, data: bytes) -> None:
        self._server_bytes += data
        for kind, number, payload in _frames(self._server_bytes):
            channel = self._channels.setdefault(number, _Channel())
            if kind == _METHOD and _method(payload) == _BASIC_DELIVER:
                tag_at = 5 + payload[4]
                channel.delivery_tag = int.from_bytes(payload[tag_at : tag_at + 8])
                channel.body.clear()
            elif kind == _HEADER and channel.delivery_tag:
                channel.missing_bytes = int.from_bytes(payload[4:12])
                self._end_message(channel)
            elif kind == _BODY and channel.delivery_tag:
                channel.body += payload
                channel.missing_bytes -= len(payload)
                self._end_message(channel)

    def from_client(self, data: bytes) -> None:
        self._client_bytes += data
        if self._client_bytes.startswith(_PROTOCOL_HEADER):
            del self._client_bytes[:8]
        for kind, number, payload in _frames(self._client_bytes):
            if kind == _METHOD and _method(payload) == _BASIC_ACK:
                tag, multiple = int.from_bytes(payload[4:12]), payload[12] & 1
                waiting = self._channels[number].unacknowledged
                tags = [each for each in list(waiting) if each == tag or (multiple and each < tag)]
                self._traffic.add_acknowledged([waiting.pop(each) for each in tags])
            elif kind == _HEARTBEAT:
                self._traffic.add_heartbeat()

    def _end_message(self, channel: _Channel) -> None:
        if channel.missing_bytes == 0:
            channel.unacknowledged[channel.delivery_tag] = bytes(channel.body)
            channel.delivery_tag = 0
            self._traffic.add_delivered()


def _method(payload: bytes) -> tuple[int, int]:
    return int.from_bytes(payload[:2]), int.from_bytes(payload[2:4])


def _frames(buffer: bytearray) -> Iterator[tuple[int, int, bytes]]:
    """Remove the complete frames from the start of a buffer; yield the type, channel and payload of each."""
    while len(buffer) >= 8:
        end = 8 + int.from_bytes(buffer[3:7])
        if len(buffer) < end:
            return
        kind, number, payload = buffer[0], int.from_bytes(buffer[1:3]), bytes(buffer[7 : end - 1])
        del buffer[:end]
        yield kind, number, payload
