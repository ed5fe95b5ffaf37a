"""``RabbitReceiver`` against a real broker: what it stores, acknowledges, gives up and reports."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from plugins.brokers.tests.client_certificates import Certificates, tls_proxy
from plugins.rabbitmq.tests.conftest import AT_ONCE, Receive
from tests.helpers import wait_for

from penstock_brokers import TcpProxy
from penstock_rabbitmq.amqp_wiretap import AmqpTraffic
from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def test_messages_are_stored_in_order_with_their_columns(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    columns = (
        "value,routing_key,exchange,headers,timestamp,message_id,correlation_id,content_type,redelivered,deliveries"
    )
    properties = pika.BasicProperties(
        headers={"unit": "K", "n": 3, "deep": {"a": [1]}, "raw": b"x"},
        timestamp=1_700_000_000,
        message_id="m",
        content_type="text/plain",
    )
    publisher.publish(queue, [b"first"], properties)
    publisher.publish(queue, [b"second"])
    harness = receive(queue, columns=columns, value_as="text")
    harness.until_count(2)
    first, second = harness.records
    assert list(first.asDict()) == columns.split(",")
    assert (first.value, first.routing_key, first.exchange) == ("first", queue, "")
    assert dict(first.headers) == {"unit": "K", "n": "3", "deep": '{"a": [1]}', "raw": "x"}
    assert first.timestamp.timestamp() == 1_700_000_000
    assert (first.message_id, first.correlation_id, first.content_type) == ("m", None, "text/plain")
    assert (first.redelivered, first.deliveries) == (False, 1)
    assert (second.value, list(second.headers), second.timestamp) == ("second", [], None)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_was_not_stored_comes_back_and_what_was_stored_does_not(
    receive: Receive, publisher: QueuePublisher, queue: str, kind: str
) -> None:
    name = f"{queue}-{kind}"
    publisher.declare(name, {"x-queue-type": kind})
    try:
        publisher.publish(name, numbered(5))
        harness = receive(name, AT_ONCE)
        harness.until_count(5)
        harness.refuse()
        publisher.publish(name, numbered(5, 5))
        harness.until_error("the harness refuses")
        harness.stop()
        assert harness.records == numbered(5)
        successor = receive(name, columns="value,redelivered,deliveries")
        successor.until_count(5)
        assert sorted(int(row.value) for row in successor.records) == [5, 6, 7, 8, 9]
        # The others may not have been delivered before the stop.
        first = next(row for row in successor.records if row.value == b"5")
        assert (first.redelivered, (first.deliveries or 0) > 1) == (True, kind == "quorum")
        successor.until(lambda: successor.info.source is not None and successor.info.source.redelivered > 0)
    finally:
        publisher.delete(name)


def test_a_backlog_larger_than_the_prefetch_count_is_stored_in_order_and_lag_is_reported(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    publisher.publish(queue, numbered(300))
    harness = receive(queue, {"spark.streaming.backpressure.initialRate": "1"}, prefetch=20)
    harness.until(lambda: harness.info.source is not None and (harness.info.source.lag_messages or 0) > 290)
    harness.update_rate(None)
    harness.until_records(numbered(300))
    harness.until(lambda: harness.info.source is not None and harness.info.source.lag_messages == 0)
    wait_for(lambda: publisher.depth(queue) == 0, "the queue is empty")


def test_a_broken_connection_is_made_again_and_nothing_is_acknowledged_on_the_next(
    broker: RabbitServer, receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    traffic = AmqpTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        harness = receive(queue, port=proxy.port)
        harness.hold()
        publisher.publish(queue, numbered(3))
        harness.until(lambda: harness.offers > 0)
        proxy.cut()
        harness.accept()
        harness.until_error(f"RabbitMQ 127.0.0.1:{proxy.port}")
        assert traffic.acknowledged() == []
        proxy.heal()
        harness.until(lambda: set(traffic.acknowledged()) == set(numbered(3)))
        publisher.publish(queue, [b"last"])
        harness.until(lambda: b"last" in harness.records)
        assert set(harness.records) == {*numbered(3), b"last"}


def test_heartbeats_continue_while_nothing_may_be_stored(
    broker: RabbitServer, receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    traffic = AmqpTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        harness = receive(queue, port=proxy.port, heartbeat=1)
        harness.hold()
        publisher.publish(queue, numbered(50))
        harness.until(lambda: harness.offers > 0)
        # The broker closes a connection that is silent for two of them.
        beats = traffic.heartbeats
        harness.until(lambda: traffic.heartbeats >= beats + 4)
        assert traffic.acknowledged() == []
        harness.accept()
        harness.until_records(numbered(50))
        assert (proxy.accepted, harness.errors) == (1, [])


def test_the_prefetch_count_follows_the_rate_limit(
    broker: RabbitServer, receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    traffic = AmqpTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        publisher.publish(queue, numbered(1000))
        conf = {"spark.streaming.backpressure.initialRate": "100", "spark.streaming.blockInterval": "100ms"}
        harness = receive(queue, conf, port=proxy.port)
        harness.until(lambda: harness.count >= 5)
        assert traffic.delivered - len(traffic.acknowledged()) <= 20
        harness.update_rate(None)
        harness.until_records(numbered(1000))
        # On the same channel: what had been delivered was acknowledged there, and nothing came twice.
        assert (proxy.accepted, harness.errors) == (1, [])


def test_messages_that_cannot_be_decoded_become_dead_letters(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    dead = f"{queue}-dead"
    publisher.declare(dead)
    harness = receive(queue, value_as="json", dead_letter=dead)
    publisher.publish(queue, [b"1"])
    publisher.publish(queue, [b"{"], pika.BasicProperties(headers={"unit": "K"}, message_id="m"))
    publisher.publish(queue, [b"[2]"])
    harness.until_records(["1", "[2]"])
    wait_for(lambda: publisher.depth(dead) == 1, "the dead letter")
    letter = publisher.get(dead)
    assert letter is not None
    properties, body = letter
    headers = properties.headers
    assert (body, properties.message_id, headers["unit"]) == (b"{", "m", "K")
    assert (headers["penstock-reason"], headers["penstock-origin"]) == ("undecodable", queue)
    assert "Expecting" in headers["penstock-error"]
    harness.until_error(f"they go to the queue {dead!r}")
    harness.until(lambda: harness.info.source is not None and harness.info.source.dead_letters == 1)
    publisher.delete(dead)


def test_rejected_dead_letters_go_to_the_exchange_of_the_queue(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    source, dead = f"{queue}-source", f"{queue}-dead"
    publisher.declare(dead)
    publisher.declare(source, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    harness = receive(source, value_as="text", reject=True)
    publisher.publish(source, [b"a", b"\xff", b"b"])
    harness.until_records(["a", "b"])
    wait_for(lambda: publisher.depth(dead) == 1, "the dead letter")
    letter = publisher.get(dead)
    assert letter is not None
    assert (letter[1], letter[0].headers["x-death"][0]["reason"]) == (b"\xff", "rejected")
    harness.stop()
    wait_for(lambda: publisher.depth(source) == 0, "the queue is empty")
    publisher.delete(source)
    publisher.delete(dead)


def test_a_message_that_comes_too_often_becomes_a_dead_letter(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    source, dead = f"{queue}-quorum", f"{queue}-dead"
    publisher.declare(source, {"x-queue-type": "quorum"})
    publisher.declare(dead)
    publisher.publish(source, [b"poison"])
    for _ in range(2):
        harness = receive(source, AT_ONCE)
        harness.refuse()
        harness.until_error("the harness refuses")
        harness.stop()
    receive(source, dead_letter=dead, max_deliveries=2)
    wait_for(lambda: publisher.depth(dead) == 1, "the dead letter")
    letter = publisher.get(dead)
    assert letter is not None
    assert (letter[1], letter[0].headers["penstock-reason"]) == (b"poison", "deliveries")
    publisher.delete(source)
    publisher.delete(dead)


def test_without_a_destination_a_message_that_cannot_be_decoded_stays_in_the_queue(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    harness = receive(queue, value_as="text")
    publisher.publish(queue, [b"a", b"\xff", b"b"])
    harness.until_count(2)
    harness.until_error("they stay in the queue, unacknowledged")
    publisher.publish(queue, [b"c"])
    harness.until(lambda: harness.records[-1] == "c")
    harness.stop()
    wait_for(lambda: publisher.depth(queue) == 1, "the message is back")
    receive(queue, value_as="bytes").until_records([b"\xff"])


def test_a_missing_queue_of_dead_letters_loses_nothing(receive: Receive, publisher: QueuePublisher, queue: str) -> None:
    harness = receive(queue, value_as="text", dead_letter="no-such-queue")
    publisher.publish(queue, [b"\xff"])
    harness.until_error("the queue of dead letters 'no-such-queue' does not exist")
    harness.stop()
    wait_for(lambda: publisher.depth(queue) == 1, "the message is back")


def test_a_full_queue_of_dead_letters_loses_nothing(receive: Receive, publisher: QueuePublisher, queue: str) -> None:
    full = f"{queue}-full"
    publisher.declare(full, {"x-max-length": 1, "x-overflow": "reject-publish"})
    publisher.publish(full, [b"there"])
    harness = receive(queue, value_as="text", dead_letter=full)
    publisher.publish(queue, [b"\xff"])
    harness.until_error(f"is the queue {full!r} full?")
    harness.stop()
    wait_for(lambda: publisher.depth(queue) == 1, "the message is back")
    publisher.delete(full)


def test_an_unknown_queue_and_virtual_host_and_user_are_named(
    receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITMQ_PASSWORD", "wrong-word")
    receive("no-such-queue").until_error("queue 'no-such-queue' does not exist in virtual host '/'")
    receive("q", virtual_host="nowhere").until_error("does not let user 'guest' use virtual host 'nowhere'")
    harness = receive("q", password="env:RABBITMQ_PASSWORD")
    harness.until_error("refuses user 'guest': check the options user and password")
    assert "wrong-word" not in str(harness.errors)


def test_a_queue_that_another_program_has_to_itself_is_reported_and_read_later(
    broker: RabbitServer, receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=0)) as connection:
        connection.channel().basic_consume(queue, lambda *_message: None, exclusive=True)
        harness = receive(queue)
        harness.until_error("in exclusive use")
    publisher.publish(queue, [b"a"])
    harness.until_records([b"a"])


def test_what_a_queue_drops_by_its_limits_does_not_come(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    short = f"{queue}-short"
    publisher.declare(short, {"x-max-length": 2})
    publisher.publish(short, numbered(5))
    harness = receive(short)
    harness.until_records(numbered(5)[-2:])
    assert harness.errors == []
    publisher.delete(short)


def test_a_stream_is_refused(receive: Receive, publisher: QueuePublisher, queue: str) -> None:
    stream = f"{queue}-stream"
    publisher.declare(stream, {"x-queue-type": "stream"})
    harness = receive(stream)
    # A stream is read from its end: what comes before the consumer starts is not delivered.
    harness.until(lambda: harness.info.source is not None)
    publisher.publish(stream, [b"a"])
    harness.until_error(f"queue {stream!r} of RabbitMQ 127.0.0.1")
    assert harness.records == []
    publisher.delete(stream)


def test_a_queue_that_is_deleted_is_reported_and_found_when_it_is_back(
    receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    harness = receive(queue)
    publisher.publish(queue, [b"first"])
    harness.until_count(1)
    publisher.delete(queue)
    harness.until_error(f"cancelled the consumer of queue {queue!r}: the queue was deleted")
    publisher.declare(queue)
    publisher.publish(queue, [b"second"])
    harness.until_records([b"first", b"second"])


def test_the_consumer_timeout_of_the_broker_is_survived(
    broker: RabbitServer, receive: Receive, publisher: QueuePublisher, queue: str
) -> None:
    broker.control("eval", "application:set_env(rabbit, consumer_timeout, 1000).")
    try:
        harness = receive(queue)
        harness.hold()
        publisher.publish(queue, numbered(3))
        harness.until(lambda: harness.offers > 0)
        # RabbitMQ has closed the channel; the messages are in the queue again.
        wait_for(lambda: publisher.depth(queue) == 3, "the timeout")
        harness.accept()
        harness.until_error("longer than the broker's consumer_timeout")
        harness.until(lambda: harness.info.source is not None and harness.info.source.redelivered == 3)
        wait_for(lambda: publisher.depth(queue) == 0, "the messages are stored again")
        assert set(harness.records) == set(numbered(3))
    finally:
        broker.control("eval", "application:set_env(rabbit, consumer_timeout, 1800000).")


def test_a_server_that_does_not_answer_is_a_timeout_and_a_stop_ends_the_wait(receive: Receive) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        receive("q", port=port, connect_timeout=0.2).until_error(f"127.0.0.1:{port}")
        began = time.monotonic()
        receive("q", port=port, connect_timeout=60).stop()
        assert time.monotonic() - began < 10


def test_a_broker_that_is_away_is_reported(receive: Receive) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    receive("q", port=port).until_error(f"connection to RabbitMQ 127.0.0.1:{port} failed")


def test_tls_connects_both_sides_by_their_certificates(
    broker: RabbitServer, queue: str, publisher: QueuePublisher, receive: Receive, tmp_path: Path
) -> None:
    """A proxy adds TLS to the broker."""
    own, other = Certificates(tmp_path / "own"), Certificates(tmp_path / "other")
    publisher.publish(queue, [b"a"])
    with tls_proxy(own.context(), broker.port) as port:
        given: dict[str, Any] = {"port": port, "value_as": "text", "tls": True}
        trusted = receive(queue, **given, tls_ca=own.authority, tls_certificate=own.client)
        trusted.until(lambda: trusted.records == ["a"])
        foreign = receive(queue, **given, tls_ca=other.authority, tls_certificate=own.client)
        foreign.until_error("certificate verify failed")
        anonymous = receive(queue, **given, tls_ca=own.authority)
        anonymous.until_error(f"127.0.0.1:{port}")
        for each in (trusted, foreign, anonymous):
            each.stop()
