"""``ProxiedFeeder``: the test source of a receiver whose broker is reached through a proxy that reads what passes.

Conformance suites import it; it needs ``penstock-testing``, which the receivers themselves do not.
"""

from __future__ import annotations

from typing import Any

from penstock_brokers.broker_traffic import BrokerTraffic
from penstock_brokers.tcp_proxy import TcpProxy
from penstock_testing import Feeder


class ProxiedFeeder(Feeder):
    """Breaks and pauses the connections of the receiver, and knows from the wire what it got and acknowledged.

    Write ``options``, which name the port of ``proxy``, and ``put``, which goes to the broker itself. A record is
    the text of a message's body.

    Args:
        port: port of the broker on this machine.
        traffic: reads its protocol.

    Attributes:
        proxy: proxy to which the receiver connects.
    """

    def __init__(self, port: int, traffic: BrokerTraffic) -> None:
        self._traffic = traffic
        self.proxy = TcpProxy("127.0.0.1", port, traffic.wiretap)

    def pause(self) -> None:
        self.proxy.pause()

    def cut(self) -> None:
        self.proxy.cut()

    def heal(self) -> None:
        self.proxy.heal()

    def acknowledged(self) -> list[Any]:
        return [body.decode(errors="replace") for body in self._traffic.acknowledged()]

    def refused_acknowledgements(self) -> int:
        return self._traffic.refused

    def in_flight(self) -> int:
        return self._traffic.in_flight()

    def taken(self) -> int:
        return self._traffic.delivered

    def polls(self) -> int:
        return self.proxy.accepted

    def close(self) -> None:
        self.proxy.close()
