"""``MqttWiretap``: reads MQTT on the wire, to know which messages a client got and which it has acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from penstock_brokers.tcp_proxy import Wiretap

_CONNECT, _PUBLISH, _PUBACK, _PINGREQ = 1, 3, 4, 12
# The property of a CONNECT packet, and the sizes in bytes of those that a client of this package sends.
_RECEIVE_MAXIMUM = 0x21
_PROPERTY_BYTES = {0x11: 4, _RECEIVE_MAXIMUM: 2, 0x22: 2, 0x27: 4}
# Name and level of the protocol, flags and keepalive.
_CONNECT_BYTES = 10


class MqttTraffic:
    """What the clients of a broker got and acknowledged, over all connections. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: MqttWiretap | None = None
        #: Payloads of QoS 1 in the order of their acknowledgement.
        self._acknowledged: list[bytes] = []
        #: The number of messages that clients got.
        self.delivered = 0
        #: The number of keepalives of clients.
        self.pings = 0
        #: Receive Maximum of each connection, in this order.
        self.windows: list[int] = []

    def acknowledged(self) -> list[bytes]:
        """The payloads that clients have acknowledged, in this order."""
        with self._lock:
            return list(self._acknowledged)

    def wiretap(self) -> MqttWiretap:
        """A wiretap for a new connection."""
        self._last = MqttWiretap(self)
        return self._last

    def in_flight(self) -> int:
        """The number of messages on the last connection that are not acknowledged."""
        return 0 if self._last is None else self._last.in_flight

    def add_delivered(self) -> None:
        """Count a message that a client got."""
        with self._lock:
            self.delivered += 1

    def add_ping(self) -> None:
        """Count a keepalive of a client."""
        with self._lock:
            self.pings += 1

    def add_acknowledged(self, payload: bytes) -> None:
        """Note a message that a client has acknowledged."""
        with self._lock:
            self._acknowledged.append(payload)


class MqttWiretap(Wiretap):
    """Reads the packets of one connection of MQTT 5.

    Args:
        traffic: what the connections have in common.
    """

    def __init__(self, traffic: MqttTraffic) -> None:
        self._traffic = traffic
        self._client_bytes = bytearray()
        self._server_bytes = bytearray()
        # The payload of each packet identifier.
        self._payloads: dict[int, bytes] = {}

    @property
    def in_flight(self) -> int:
        """The number of messages that are not acknowledged."""
        return len(self._payloads)

    def from_server(self, data: bytes) -> None:
        self._server_bytes += data
        for header, body in _packets(self._server_bytes):
            qos = header >> 1 & 3
            if header >> 4 != _PUBLISH or not qos:
                continue
            place = 2 + int.from_bytes(body[:2])
            packet_id = int.from_bytes(body[place : place + 2])
            length, used = _variable_length(body, place + 2) or (0, 0)
            self._payloads[packet_id] = bytes(body[place + 2 + used + length :])
            self._traffic.add_delivered()

    def from_client(self, data: bytes) -> None:
        self._client_bytes += data
        for header, body in _packets(self._client_bytes):
            if header >> 4 == _PUBACK:
                self._traffic.add_acknowledged(self._payloads.pop(int.from_bytes(body[:2])))
            elif header >> 4 == _PINGREQ:
                self._traffic.add_ping()
            elif header >> 4 == _CONNECT:
                self._traffic.windows.append(_receive_maximum(body))


def _receive_maximum(connect: bytes) -> int:
    length, used = _variable_length(connect, _CONNECT_BYTES) or (0, 0)
    at = _CONNECT_BYTES + used
    end = at + length
    while at < end:
        size = _PROPERTY_BYTES[connect[at]]
        if connect[at] == _RECEIVE_MAXIMUM:
            return int.from_bytes(connect[at + 1 : at + 1 + size])
        at += 1 + size
    return 65_535


def _packets(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Remove the complete packets from the start of a buffer; yield the first byte and the rest of each."""
    while len(buffer) >= 2 and (found := _variable_length(buffer, 1)) is not None:
        length, used = found
        end = 1 + used + length
        if len(buffer) < end:
            return
        header, body = buffer[0], bytes(buffer[1 + used : end])
        del buffer[:end]
        yield header, body


def _variable_length(data: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """A variable byte integer and its number of bytes; ``None`` when it is not complete."""
    value = 0
    for index, byte in enumerate(data[start : start + 4]):
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, index + 1
    return None
