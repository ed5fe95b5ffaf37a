"""A reference receiver for a broker with leases: it passes every check of sessions, leases and dead letters."""

from __future__ import annotations

import threading

from penstock import SourceStatus, ThreadReceiver
from penstock_testing import BrokerSession, Capabilities, Delivery, MemoryBroker, MemoryBrokerFeeder

#: What a ``BrokerReceiver`` can do.
BROKER_RECEIVER = Capabilities(acknowledged=True)
_MOST = 100
_MAX_DELIVERIES = 2
_POLL_S = 0.05


class BrokerReceiver(ThreadReceiver[str]):
    """Reads texts from a ``MemoryBroker``; acknowledges what is stored in the session that delivered it."""

    def __init__(self, feeder: MemoryBrokerFeeder) -> None:
        self.address = feeder.broker.address
        self.session: BrokerSession | None = None
        self.redelivered = 0
        self.dead_letters = 0

    def receive(self) -> None:
        self.session = session = MemoryBroker.find(self.address).session()
        # Asked after the session is visible to onStop: a stop either is seen here or closes the session.
        if self.isStopped():
            return
        try:
            session.open(extends_leases=True)
            self.opened(session)
            self.serve(session)
        finally:
            session.close()

    def serve(self, session: BrokerSession) -> None:
        """Fetch, store and acknowledge while another thread keeps the leases."""
        leases = threading.Thread(target=self.keep_leases, args=(session,), name="leases", daemon=True)
        leases.start()
        self.report(session)
        try:
            while not self.isStopped():
                self.take(session, self.fetch(session))
                self.report(session)
        finally:
            session.close()
            leases.join()

    def opened(self, session: BrokerSession) -> None:
        """Called once per session, before it fetches."""

    def fetch(self, session: BrokerSession) -> list[Delivery]:
        """The next deliveries; none after a while without a message."""
        return session.fetch(self.fetch_hint(_MOST), _POLL_S)

    def keep_leases(self, session: BrokerSession) -> None:
        """Extend leases, also while a store waits for the rate limit or the driver."""
        while session.await_extension():
            session.extend_leases()

    def take(self, session: BrokerSession, deliveries: list[Delivery]) -> None:
        """Store what can be decoded, then acknowledge it."""
        self.redelivered += sum(delivery.count > 1 for delivery in deliveries)
        texts, stored = [], []
        for delivery in deliveries:
            try:
                texts.append(delivery.value.decode())
                stored.append(delivery)
            except UnicodeDecodeError as error:
                self.reject(session, delivery, error)
        if texts:
            self.store_all(texts)
            self.acknowledge(session, stored)

    def acknowledge(self, session: BrokerSession, deliveries: list[Delivery]) -> None:
        """Acknowledge what is stored."""
        session.acknowledge(deliveries)

    def reject(self, session: BrokerSession, delivery: Delivery, error: UnicodeDecodeError) -> None:
        """Let the broker deliver a message again; after some deliveries publish it as a dead letter."""
        self.reportError(f"a message cannot be decoded, delivery {delivery.count} of {_MAX_DELIVERIES}", error)
        if delivery.count < _MAX_DELIVERIES:
            session.give_back([delivery])
            return
        session.publish_dead_letter(delivery, str(error))
        session.acknowledge([delivery])
        self.dead_letters += 1

    def report(self, session: BrokerSession) -> None:
        """Report how far the receiver is behind."""
        broker = MemoryBroker.find(self.address)
        self.report_source(
            SourceStatus(
                lag_messages=broker.lag,
                oldest_unacknowledged_s=broker.oldest_unacknowledged_s,
                redelivered=self.redelivered,
                dead_letters=self.dead_letters,
            )
        )

    def onStop(self) -> None:
        # Only a connect has to be woken: what is being stored is acknowledged in this session.
        if self.session is not None and not self.session.is_open:
            self.session.close()
        super().onStop()
