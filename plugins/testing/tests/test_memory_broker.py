"""``MemoryBroker``: leases, sessions, redelivery, acknowledgements and dead letters, on a clock of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock_testing import BrokerSession, MemoryBroker, MemoryBrokerFeeder, Message


@pytest.fixture
def feeder() -> Iterator[MemoryBrokerFeeder]:
    with MemoryBrokerFeeder() as feeder:
        yield feeder


@pytest.fixture
def broker(feeder: MemoryBrokerFeeder) -> MemoryBroker:
    return feeder.broker


def opened(broker: MemoryBroker) -> BrokerSession:
    session = broker.session()
    session.open()
    return session


def texts(session: BrokerSession) -> list[str]:
    return [delivery.value.decode() for delivery in session.fetch(timeout_s=0)]


def test_each_message_goes_to_one_session(feeder: MemoryBrokerFeeder, broker: MemoryBroker) -> None:
    first, second = opened(broker), opened(broker)
    feeder.put(["a", "b", "c"])
    assert [delivery.value for delivery in first.fetch(2)] == [b"a", b"b"]
    assert texts(second) == ["c"]
    assert (feeder.in_flight(), feeder.taken(), broker.lag) == (3, 3, 0)


def test_acknowledged_message_is_not_delivered_again(feeder: MemoryBrokerFeeder, broker: MemoryBroker) -> None:
    session = opened(broker)
    feeder.put(["a", "b"])
    session.acknowledge(session.fetch(1))
    session.close()
    assert feeder.acknowledged() == ["a"]
    assert texts(opened(broker)) == ["b"]


def test_expired_lease_makes_a_message_available_again(feeder: MemoryBrokerFeeder, broker: MemoryBroker) -> None:
    session = opened(broker)
    feeder.put(["a"])
    (delivery,) = session.fetch()
    feeder.pass_time(0.9 * broker.lease_s)
    assert broker.in_flight == 1
    feeder.pass_time(0.2 * broker.lease_s)
    assert broker.in_flight == 0
    with pytest.raises(LookupError, match=r"deliveries \[1\] are not in flight in this session of 'memory-broker"):
        session.acknowledge([delivery])
    (again,) = session.fetch()
    assert (again.tag, again.count) == (2, 2)


def test_session_that_waits_for_it_extends_its_leases_while_time_passes(
    feeder: MemoryBrokerFeeder, broker: MemoryBroker
) -> None:
    session = broker.session()
    session.open(extends_leases=True)

    def keep() -> None:
        while session.await_extension():
            session.extend_leases()

    keeper = threading.Thread(target=keep, daemon=True)
    feeder.put(["a"])
    deliveries = session.fetch()
    keeper.start()
    feeder.pass_time(20 * broker.lease_s)
    assert broker.oldest_unacknowledged_s == 20 * broker.lease_s
    session.acknowledge(deliveries)
    assert broker.oldest_unacknowledged_s is None
    session.close()
    keeper.join(10)
    assert not keeper.is_alive()


def test_end_of_a_session_makes_its_messages_available_in_order(
    feeder: MemoryBrokerFeeder, broker: MemoryBroker
) -> None:
    session = opened(broker)
    feeder.put(["a", "b", "c"])
    session.fetch(2)
    session.close()
    assert texts(opened(broker)) == ["a", "b", "c"]
    with pytest.raises(ConnectionResetError, match="the session at memory broker 'memory-broker-"):
        session.fetch()


def test_acknowledgement_in_another_session_is_refused_and_counted(
    feeder: MemoryBrokerFeeder, broker: MemoryBroker
) -> None:
    session = opened(broker)
    feeder.put(["a"])
    deliveries = session.fetch()
    feeder.cut()
    feeder.heal()
    with pytest.raises(ConnectionResetError):
        session.acknowledge(deliveries)
    with pytest.raises(LookupError):
        opened(broker).acknowledge(deliveries)
    assert feeder.refused_acknowledgements() == 1
    assert feeder.acknowledged() == []


def test_dead_letter_has_the_message_its_reason_and_its_deliveries(
    feeder: MemoryBrokerFeeder, broker: MemoryBroker
) -> None:
    session = opened(broker)
    bad = feeder.put_bad()
    session.give_back(session.fetch())
    (delivery,) = session.fetch()
    session.publish_dead_letter(delivery, "not UTF-8")
    session.acknowledge([delivery])
    (letter,) = feeder.dead_letters()
    assert letter.message == bad == Message(bad.value, {"origin": "test source"})
    assert (letter.reason, letter.deliveries) == ("not UTF-8", 2)
    assert texts(session) == []


def test_claim_takes_over_what_is_idle_for_long_enough(feeder: MemoryBrokerFeeder, broker: MemoryBroker) -> None:
    first, second = opened(broker), opened(broker)
    feeder.put(["a"])
    deliveries = first.fetch()
    assert second.claim(0.5 * broker.lease_s) == []
    feeder.pass_time(0.5 * broker.lease_s)
    assert [delivery.value for delivery in second.claim(0.5 * broker.lease_s)] == [b"a"]
    with pytest.raises(LookupError):
        first.acknowledge(deliveries)


def test_close_wakes_a_connect_that_the_broker_does_not_answer(
    feeder: MemoryBrokerFeeder, broker: MemoryBroker
) -> None:
    feeder.pause()
    session = broker.session()
    errors: list[BaseException] = []

    def connect() -> None:
        try:
            session.open()
        except ConnectionAbortedError as error:
            errors.append(error)

    connecting = threading.Thread(target=connect, daemon=True)
    connecting.start()
    while not feeder.polls():
        threading.Event().wait(0.001)
    session.close()
    connecting.join(10)
    assert "was closed while it connected" in str(errors)
    assert not session.is_open


def test_broker_that_is_cut_off_or_closed_refuses_connections() -> None:
    with MemoryBrokerFeeder() as feeder:
        address = feeder.options()["address"]
        feeder.cut()
        with pytest.raises(ConnectionRefusedError, match=f"memory broker '{address}' refuses connections"):
            MemoryBroker.find(address).session().open()
    with pytest.raises(ConnectionRefusedError, match=f"no memory broker '{address}'"):
        MemoryBroker.find(address)


def test_paused_broker_takes_messages_and_delivers_none(feeder: MemoryBrokerFeeder, broker: MemoryBroker) -> None:
    session = opened(broker)
    feeder.pause()
    feeder.put(["a"])
    assert session.fetch(timeout_s=0) == []
    feeder.heal()
    assert texts(session) == ["a"]
