"""Mutants of the receiver checks RC-47 to RC-55."""

from __future__ import annotations

import contextlib

from attrs import evolve
from tests.mutants.broker_receiver import BROKER_RECEIVER, BrokerReceiver
from tests.mutants.mutant import Mutant

from penstock import Receiver, ThreadReceiver
from penstock_testing import BrokerSession, Delivery, MemoryBroker, MemoryBrokerFeeder


class RetriesInNewSession(BrokerReceiver):
    """Repeats an acknowledgement that failed in a new session."""

    def acknowledge(self, session: BrokerSession, deliveries: list[Delivery]) -> None:
        try:
            super().acknowledge(session, deliveries)
        except ConnectionResetError:
            again = MemoryBroker.find(self.address).session()
            again.open()
            with contextlib.closing(again), contextlib.suppress(LookupError):
                again.acknowledge(deliveries)


class ExtendsNothing(BrokerReceiver):
    """Leaves its leases alone while it waits for the rate limit."""

    def keep_leases(self, session: BrokerSession) -> None:
        while session.await_extension():
            pass


class ConfirmsInHeartbeat(BrokerReceiver):
    """Confirms with each sign of life what it has fetched."""

    fetched: tuple[Delivery, ...] = ()

    def fetch(self, session: BrokerSession) -> list[Delivery]:
        deliveries = super().fetch(session)
        self.fetched = tuple(deliveries)
        return deliveries

    def keep_leases(self, session: BrokerSession) -> None:
        while session.await_extension():
            self.acknowledge(session, list(self.fetched))
            session.extend_leases()

    def acknowledge(self, session: BrokerSession, deliveries: list[Delivery]) -> None:
        with contextlib.suppress(LookupError):
            super().acknowledge(session, deliveries)


class SilentWhenIdle(BrokerReceiver):
    """Reports the status of its source with records only."""

    has_records = True

    def fetch(self, session: BrokerSession) -> list[Delivery]:
        deliveries = super().fetch(session)
        self.has_records = bool(deliveries)
        return deliveries

    def report(self, session: BrokerSession) -> None:
        if self.has_records:
            super().report(session)


class ClaimsAtStart(BrokerReceiver):
    """Claims at its start what others have in flight, expired or not."""

    claimed: tuple[Delivery, ...] = ()

    def opened(self, session: BrokerSession) -> None:
        self.claimed = tuple(session.claim(0.0))

    def fetch(self, session: BrokerSession) -> list[Delivery]:
        claimed, self.claimed = list(self.claimed), ()
        return claimed or super().fetch(session)


class SkipsFetched(BrokerReceiver):
    """Recognizes a repetition by what it has fetched, stored or not."""

    def __init__(self, feeder: MemoryBrokerFeeder) -> None:
        super().__init__(feeder)
        self.fetched: set[bytes] = set()

    def take(self, session: BrokerSession, deliveries: list[Delivery]) -> None:
        new = [each for each in deliveries if each.count == 1 or each.value not in self.fetched]
        self.fetched |= {each.value for each in deliveries}
        session.acknowledge([each for each in deliveries if each not in new])
        for each in new:
            super().take(session, [each])


class DropsPoison(BrokerReceiver):
    """Reports a message that it cannot decode, and drops it."""

    def reject(self, session: BrokerSession, delivery: Delivery, error: UnicodeDecodeError) -> None:
        self.reportError("a message was dropped", error)
        session.acknowledge([delivery])


class LosesHeaders(BrokerReceiver):
    """Publishes the value alone as a dead letter."""

    def reject(self, session: BrokerSession, delivery: Delivery, error: UnicodeDecodeError) -> None:
        super().reject(session, evolve(delivery, headers={}), error)


class PrefetchesAlways(BrokerReceiver):
    """Fetches a hundred messages at a time, whatever the rate limit."""

    def fetch(self, session: BrokerSession) -> list[Delivery]:
        return session.fetch(100, 0.05)


class ConnectsUnseen(BrokerReceiver):
    """Shows its session to ``onStop`` once it is connected, and does not ask whether it was stopped meanwhile."""

    def receive(self) -> None:
        session = MemoryBroker.find(self.address).session()
        session.open(extends_leases=True)
        self.session = session
        with contextlib.closing(session):
            self.serve(session)

    def isStopped(self) -> bool:
        return False

    def onStop(self) -> None:
        if self.session is not None:
            self.session.close()
        ThreadReceiver.onStop(self)


def _mutant(
    check: str, make: type[Receiver[str]], words: str, scale: float = 1.0, *also: str, because: str = ""
) -> Mutant:
    return Mutant(
        check=check,
        words=words,
        kind="receiver",
        make=make,
        feeder=MemoryBrokerFeeder,
        capabilities=BROKER_RECEIVER,
        scale=scale,
        also=also,
        because=because,
    )


MUTANTS = [
    _mutant("RC-47", RetriesInNewSession, "the source refused 5 acknowledgements"),
    _mutant("RC-48", ExtendsNothing, "records are stored more than once"),
    _mutant("RC-49", ConfirmsInHeartbeat, "has confirmed 5 records that are not stored"),
    _mutant("RC-50", SilentWhenIdle, "reports no status of its source while that is idle", 0.1),
    _mutant("RC-51", ClaimsAtStart, "of 30 records are stored more than once"),
    _mutant(
        "RC-52",
        SkipsFetched,
        "of 12 records are not stored",
        0.2,
        "RC-33",
        "RC-47",
        "RC-53",
        because="they also deliver records again to the same instance",
    ),
    _mutant("RC-53", DropsPoison, "there is no dead letter", 0.2),
    _mutant("RC-53", LosesHeaders, "lacks the headers {'origin': 'test source'}"),
    _mutant("RC-54", PrefetchesAlways, "records are in flight, and a limit of 20 records/s permits 40"),
    _mutant("RC-55", ConnectsUnseen, "has not ended", 0.1),
]
