"""``MqttWiretap``: reads MQTT on the wire, to know which messages a client got and which it has acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from penstock_brokers import BrokerTraffic, BrokerWiretap

_CONNECT, _PUBLISH, _PUBACK, _PINGREQ = 1, 3, 4, 12
# The property of a CONNECT packet, and the sizes in bytes of those that a client of this package sends.
_RECEIVE_MAXIMUM = 0x21
_PROPERTY_BYTES = {0x11: 4, _RECEIVE_MAXIMUM: 2, 0x22: 2, 0x27: 4}
# Name and level of the protocol, flags and keepalive.
_CONNECT_BYTES = 10


class MqttTraffic(BrokerTraffic):
    """Deliveries and acknowledgements of all clients of a broker. Thread-safe.

    Attributes:
        windows: Receive Maximum of each connection, in this order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.windows: list[int] = []

    def wiretap(self) -> MqttWiretap:
        return MqttWiretap(self)


class MqttWiretap(BrokerWiretap):
    """Reads the packets of one connection of MQTT 5. Messages of QoS 1 are in flight until they are acknowledged.

    Args:
        traffic: traffic of all connections.
    """

    def __init__(self, traffic: MqttTraffic) -> None:
        super().__init__(traffic)
        self._windows = traffic.windows
        self._client_bytes = bytearray()
        self._server_bytes = bytearray()

    def from_server(self, data: bytes) -> None:
        self._server_bytes += data
        for header, body in _packets(self._server_bytes):
            qos = header >> 1 & 3
            if header >> 4 != _PUBLISH or not qos:
                continue
            place = 2 + int.from_bytes(body[:2])
            packet_id = int.from_bytes(body[place : place + 2])
            length, used = _variable_length(body, place + 2) or (0, 0)
            self.traffic.deliver(self, (0, packet_id), bytes(body[place + 2 + used + length :]))

    def from_client(self, data: bytes) -> None:
        self._client_bytes += data
        for header, body in _packets(self._client_bytes):
            if header >> 4 == _PUBACK:
                self.traffic.acknowledge(self, (0, int.from_bytes(body[:2])))
            elif header >> 4 == _PINGREQ:
                self.traffic.beat()
            elif header >> 4 == _CONNECT:
                self._windows.append(_receive_maximum(body))


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
