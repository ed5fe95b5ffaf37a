"""``AmqpWiretap``: reads AMQP 0-9-1 on the wire, to know which messages a client got and which it has acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from penstock_brokers import BrokerTraffic, BrokerWiretap

_PROTOCOL_HEADER = b"AMQP"
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_BASIC_DELIVER, _BASIC_ACK = (60, 60), (60, 80)


class AmqpTraffic(BrokerTraffic):
    """Deliveries and acknowledgements of all clients of a broker. Thread-safe."""

    def wiretap(self) -> AmqpWiretap:
        return AmqpWiretap(self)


class _Channel:
    """The message that is being delivered on one channel; its delivery tag is 0 when there is none."""

    def __init__(self) -> None:
        self.delivery_tag = 0
        self.missing_bytes = 0
        self.body = bytearray()


class AmqpWiretap(BrokerWiretap):
    """Reads the frames of one connection."""

    def __init__(self, traffic: BrokerTraffic) -> None:
        super().__init__(traffic)
        self._client_bytes = bytearray()
        self._server_bytes = bytearray()
        self._channels: dict[int, _Channel] = {}

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
                self._end_message(number, channel)
            elif kind == _BODY and channel.delivery_tag:
                channel.body += payload
                channel.missing_bytes -= len(payload)
                self._end_message(number, channel)

    def from_client(self, data: bytes) -> None:
        self._client_bytes += data
        if self._client_bytes.startswith(_PROTOCOL_HEADER):
            del self._client_bytes[:8]
        for kind, number, payload in _frames(self._client_bytes):
            if kind == _METHOD and _method(payload) == _BASIC_ACK:
                tag = number, int.from_bytes(payload[4:12])
                self.traffic.acknowledge(self, tag, multiple=bool(payload[12] & 1))
            elif kind == _HEARTBEAT:
                self.traffic.beat()

    def _end_message(self, number: int, channel: _Channel) -> None:
        if channel.missing_bytes == 0:
            self.traffic.deliver(self, (number, channel.delivery_tag), bytes(channel.body))
            channel.delivery_tag = 0


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
