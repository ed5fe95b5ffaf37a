"""``BrokerTraffic``: what is in flight, acknowledged and refused, by connection."""

from __future__ import annotations

from penstock_brokers import BrokerTraffic, BrokerWiretap


class Tap(BrokerWiretap):
    def from_client(self, data: bytes) -> None:
        self.traffic.acknowledge(self, (1, int(data)))

    def from_server(self, data: bytes) -> None:
        self.traffic.deliver(self, (1, int(data)), b"body " + data)


class Traffic(BrokerTraffic):
    def wiretap(self) -> Tap:
        return Tap(self)


def test_messages_are_in_flight_until_they_are_acknowledged() -> None:
    traffic = Traffic()
    tap = traffic.wiretap()
    for number in (b"1", b"2"):
        tap.from_server(number)
    tap.from_client(b"2")
    assert (traffic.delivered, traffic.in_flight(), traffic.acknowledged()) == (2, 1, [b"body 2"])
    assert traffic.refused == 0


def test_acknowledgement_may_cover_the_earlier_messages_of_its_channel() -> None:
    traffic = Traffic()
    tap = traffic.wiretap()
    for tag in ((1, 1), (1, 2), (1, 3), (2, 1)):
        traffic.deliver(tap, tag, repr(tag).encode())
    traffic.acknowledge(tap, (1, 2), multiple=True)
    assert traffic.acknowledged() == [b"(1, 1)", b"(1, 2)"]
    assert traffic.in_flight() == 2


def test_acknowledgement_in_another_session_is_refused() -> None:
    traffic = Traffic()
    first, second = traffic.wiretap(), traffic.wiretap()
    first.from_server(b"1")
    second.from_client(b"1")
    assert (traffic.refused, traffic.acknowledged()) == (1, [])
    # Acknowledged once, it is not in flight any more.
    first.from_client(b"1")
    first.from_client(b"1")
    assert (traffic.refused, traffic.acknowledged()) == (2, [b"body 1"])


def test_what_a_closed_connection_had_is_not_in_flight() -> None:
    traffic = Traffic()
    tap = traffic.wiretap()
    tap.from_server(b"1")
    tap.closed()
    tap.from_server(b"2")
    assert (traffic.delivered, traffic.in_flight()) == (2, 0)
