"""``MqttReceiver`` against a real broker: what it stores, acknowledges, gives up and reports."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from plugins.mqtt.tests.conftest import AT_ONCE, Receive
from tests.helpers import wait_for

from penstock_brokers import TcpProxy
from penstock_mqtt import MqttOptions
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.mqtt_wiretap import MqttTraffic
from penstock_mqtt.publisher import Publisher

Options = Callable[..., MqttOptions]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def test_messages_are_stored_in_order_with_their_columns(
    options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    columns = "topic,value,qos,retain,properties,timestamp"
    before = time.time()
    harness = receive(options(topics=f"{topic}/+/t,{topic}/other/#", columns=columns, value_as="text"))
    # The broker sends messages of QoS 0 to a client that is there, only.
    harness.until(lambda: harness.source_reports > 0)
    publisher.publish(f"{topic}/a/t", [b"1"], user_properties={"unit": "K"})
    publisher.publish(f"{topic}/a/ignored", [b"2"])
    publisher.publish(f"{topic}/other/b/c", [b"3"], qos=0)
    harness.until_count(2)
    first, second = harness.records
    assert list(first.asDict()) == columns.split(",")
    assert (first.topic, first.value, first.qos, first.retain) == (f"{topic}/a/t", "1", 1, False)
    assert dict(first.properties) == {"unit": "K"}
    assert before - 1 < first.timestamp.timestamp() < time.time() + 1
    assert (second.topic, second.value, second.qos, list(second.properties)) == (f"{topic}/other/b/c", "3", 0, [])


def test_what_was_not_stored_comes_back_and_what_was_stored_does_not(
    options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    made = options()
    harness = receive(made, AT_ONCE)
    publisher.publish(topic, numbered(5))
    harness.until_count(5)
    harness.refuse()
    publisher.publish(topic, numbered(5, 5))
    harness.until_error("the harness refuses")
    harness.stop()
    assert harness.records == numbered(5)
    successor = receive(made)
    successor.until_records(numbered(5, 5))
    # The others may not have been delivered before the stop.
    successor.until(lambda: successor.info.source is not None and successor.info.source.redelivered > 0)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_backlog_larger_than_the_window_is_stored_in_order(
    options: Options, receive: Receive, publisher: Publisher, topic: str, protocol: str
) -> None:
    made = options(receive_maximum=20, protocol=protocol)
    publisher.publish(topic, numbered(500))
    receive(made).until_records(numbered(500))


def test_a_retained_message_comes_once_per_session(
    options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    publisher.publish(topic, [b"retained"], retain=True)
    made = options(columns="value,retain")
    for expected in (["retained"], ["retained", "next"]):
        harness = receive(made)
        if len(expected) == 2:
            publisher.publish(topic, [b"next"])
        harness.until(lambda seen=harness, last=expected[-1]: last in [row.value.decode() for row in seen.records])  # type: ignore[misc]
        harness.stop()
        # The session is the first one's: its retained message was acknowledged, and a new connection brings no other.
        assert [row.value.decode() for row in harness.records] == expected[-1:]


def test_a_broken_connection_is_made_again_and_what_was_in_flight_comes_again(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    traffic = MqttTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        harness = receive(options(port=proxy.port))
        harness.hold()
        publisher.publish(topic, numbered(3))
        harness.until(lambda: harness.offers > 0)
        proxy.cut()
        harness.accept()
        # It was stored, and could not be acknowledged: at least once.
        harness.until_error(" is gone. If it runs: ")
        assert traffic.acknowledged() == []
        proxy.heal()
        harness.until(lambda: set(traffic.acknowledged()) == set(numbered(3)))
        publisher.publish(topic, [b"last"])
        harness.until(lambda: b"last" in harness.records)
        assert set(harness.records) == {*numbered(3), b"last"}


def test_a_pause_longer_than_the_keepalive_keeps_the_session_and_repeats_nothing(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    traffic = MqttTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        made = options(port=proxy.port, keepalive=2, receive_maximum=10)
        sessions = proxy.accepted
        harness = receive(made)
        harness.hold()
        publisher.publish(topic, numbered(100))
        harness.until(lambda: harness.offers > 0)
        # The broker expels a client that is silent for one and a half times the keepalive.
        pings = traffic.heartbeats
        harness.until(lambda: traffic.heartbeats >= pings + 2)
        assert traffic.acknowledged() == []
        harness.accept()
        harness.until_records(numbered(100))
        assert proxy.accepted == sessions + 1


def test_a_full_buffer_keeps_the_session_and_repeats_nothing(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    """The answers to keepalives wait behind messages for which there is no room."""
    traffic = MqttTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        made = options(port=proxy.port, keepalive=2, receive_maximum=20)
        sessions = proxy.accepted
        publisher.publish(topic, numbered(2000))
        harness = receive(made)
        # For each acknowledgement, Mosquitto 2.0.11 sends up to Receive Maximum further messages.
        harness.until(lambda: traffic.acknowledged())
        harness.hold()
        pings = traffic.heartbeats
        harness.until(lambda: traffic.heartbeats >= pings + 4)
        harness.accept()
        harness.until_records(numbered(2000))
        assert (proxy.accepted, harness.errors) == (sessions + 1, [])


def test_a_pause_keeps_the_connection(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    with TcpProxy("127.0.0.1", broker.port) as proxy:
        made = options(port=proxy.port)
        sessions = proxy.accepted
        harness = receive(made)
        harness.until(lambda: harness.source_reports > 0)
        harness.pause()
        # An idle receiver, then one that waits for the end of the pause.
        before = harness.source_reports
        harness.until(lambda: harness.source_reports >= before + 2)
        publisher.publish(topic, numbered(100))
        harness.until(lambda: harness.source_status and harness.source_status.oldest_unacknowledged_s is not None)
        harness.resume()
        harness.until_records(numbered(100))
        assert proxy.accepted == sessions + 1


def test_the_window_follows_the_rate_limit(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    traffic = MqttTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        made = options(port=proxy.port)
        sessions = proxy.accepted
        publisher.publish(topic, numbered(3000))
        conf = {"spark.streaming.backpressure.initialRate": "100", "spark.streaming.blockInterval": "100ms"}
        harness = receive(made, conf)
        harness.until(lambda: harness.count >= 5)
        # First the connection that created the session, then twice the records of a block interval. That is what the
        # receiver asks for: Mosquitto 2.0.11 sends more.
        assert traffic.windows == [made.receive_maximum, 20]
        harness.update_rate(None)
        harness.until_records(numbered(3000))
        assert proxy.accepted == sessions + 2
        assert traffic.windows == [made.receive_maximum, 20, made.receive_maximum]
        assert harness.errors == []


def test_messages_that_cannot_be_decoded_become_dead_letters(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    dead = receive(options(topics=f"{topic}/dead", client_id=f"{topic}/dead", columns="value,properties"))
    harness = receive(options(value_as="json", dead_letter=f"{topic}/dead"))
    publisher.publish(topic, [b"1"])
    publisher.publish(topic, [b"{"], user_properties={"unit": "K"})
    publisher.publish(topic, [b"[2]"])
    harness.until_records(["1", "[2]"])
    dead.until_count(1)
    (letter,) = dead.records
    properties = dict(letter.properties)
    assert (letter.value, properties["unit"], properties["penstock-reason"]) == (b"{", "K", "undecodable")
    assert (properties["penstock-origin"], "Expecting" in properties["penstock-error"]) == (topic, True)
    harness.until_error("1 messages cannot be decoded, the first of topic")
    harness.until(lambda: harness.info.source is not None and harness.info.source.dead_letters == 1)


def test_without_dead_letter_a_message_that_cannot_be_decoded_stays_in_the_broker(
    broker: MosquittoServer, options: Options, receive: Receive, publisher: Publisher, topic: str
) -> None:
    traffic = MqttTraffic()
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        harness = receive(options(value_as="text", port=proxy.port))
        publisher.publish(topic, [b"a", b"\xff", b"b"])
        harness.until_records(["a", "b"])
        harness.until_error("they stay in the broker, unacknowledged")
        wait_for(lambda: traffic.acknowledged() == [b"a", b"b"], "the acknowledgements")
    harness.stop()
    receive(options(value_as="bytes")).until_records([b"\xff"])


def test_status_is_reported_while_idle(options: Options, receive: Receive) -> None:
    harness = receive(options())
    harness.until(lambda: harness.info.source is not None)
    assert harness.info.source is not None
    assert (harness.info.source.lag_messages, harness.info.source.oldest_unacknowledged_s) == (None, None)


def test_a_broker_that_is_away_is_reported_and_found_later(
    own_broker: MosquittoServer, options: Options, receive: Receive, topic: str
) -> None:
    made = options(port=own_broker.port)
    own_broker.save()
    own_broker.kill()
    harness = receive(made)
    harness.until_error(f"MQTT broker 127.0.0.1:{own_broker.port} cannot be reached: ")
    own_broker.start()
    with Publisher(own_broker.port) as publisher:
        publisher.publish(topic, [b"a"])
        harness.until_records([b"a"])


def test_a_killed_broker_loses_nothing_that_it_has_saved(
    own_broker: MosquittoServer, options: Options, receive: Receive, topic: str
) -> None:
    harness = receive(options(port=own_broker.port))
    harness.hold()
    with Publisher(own_broker.port) as publisher:
        publisher.publish(topic, numbered(10))
    harness.until(lambda: harness.offers > 0)
    own_broker.save()
    own_broker.kill()
    own_broker.start()
    harness.accept()
    harness.until(lambda: set(harness.records) == set(numbered(10)))


def test_a_broker_that_has_lost_the_session_is_reported_and_read_again(
    own_broker: MosquittoServer, options: Options, receive: Receive, topic: str
) -> None:
    harness = receive(options(port=own_broker.port))
    with Publisher(own_broker.port) as publisher:
        publisher.publish(topic, [b"a"])
        harness.until_records([b"a"])
    own_broker.restart(keep_data=False)
    harness.until_error(f"has no session of client {topic!r} any more")
    with Publisher(own_broker.port) as publisher:
        publisher.publish(topic, [b"b"])
        harness.until_records([b"a", b"b"])
    # Connecting again to a session that is there is no loss.
    own_broker.save()
    own_broker.restart()
    with Publisher(own_broker.port) as publisher:
        publisher.publish(topic, [b"c"])
        harness.until_records([b"a", b"b", b"c"])
    assert sum("has no session" in error for error in harness.errors) == 1


def test_another_client_with_the_same_id_is_named_in_the_error(
    broker: MosquittoServer, options: Options, receive: Receive
) -> None:
    made = options()
    harness = receive(made)
    harness.until(lambda: harness.info.source is not None)
    intruder = mqtt.Client(CallbackAPIVersion.VERSION2, made.client_id, protocol=mqtt.MQTTv5)
    intruder.connect("127.0.0.1", broker.port, clean_start=False)
    with contextlib.closing(_Running(intruder)):
        harness.until_error(f"does another client use the client id {made.client_id!r}")


class _Running:
    def __init__(self, client: mqtt.Client) -> None:
        self._client = client
        client.loop_start()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def test_a_server_that_does_not_answer_is_a_timeout_and_a_stop_ends_the_wait(
    options: Options, receive: Receive
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        made = MqttOptions(topics=("a",), client_id="a", host="127.0.0.1", port=port, connect_timeout=0.1)
        receive(made).until_error("has not answered the connection within 0.1 s")
        began = time.monotonic()
        harness = receive(MqttOptions(topics=("a",), client_id="a", host="127.0.0.1", port=port, connect_timeout=60))
        harness.stop()
        assert time.monotonic() - began < 10


def test_records_of_json_are_text(options: Options, receive: Receive, publisher: Publisher, topic: str) -> None:
    harness = receive(options(value_as="json"))
    document: dict[str, Any] = {"a": [1, None, "é"]}
    publisher.publish(topic, [json.dumps(document).encode()])
    harness.until_count(1)
    assert json.loads(harness.records[0]) == document
