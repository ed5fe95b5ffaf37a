"""The programs in ``examples/receivers``, each against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import runpy
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plugins.nats.tests.js_stream import JsStream
from tests.helpers import wait_for

from penstock import SourceStatus
from penstock_nats.nats_server import NatsServer
from penstock_testing import ReceiverHarness

if TYPE_CHECKING:
    from tests.examples.conftest import RunExample, Running
    from tests.helpers.line_server import LineServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "receivers"
MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")


def example(name: str) -> dict[str, Any]:
    """The names of an example; like a program's own, they are in no module that an executor could import."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=f"example_{name}")


# -- MQTT --


def listens_or_ended(process: subprocess.Popen[bytes], port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return process.poll() is not None


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """The port of a broker of its own."""
    if MOSQUITTO is None:
        pytest.skip("the broker mosquitto is not installed (apt-get install mosquitto)")
    # The broker cannot choose a free port itself: another process may take the port first, then the broker ends.
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        conf = tmp_path / "mosquitto.conf"
        conf.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        with subprocess.Popen([MOSQUITTO, "-c", conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                wait_for(partial(listens_or_ended, process, port), "the broker listens")
                if process.poll() is None:
                    yield port
                    return
            finally:
                process.kill()
    pytest.fail("the broker does not start")


def test_mqtt_messages_are_acknowledged_once_stored(broker: int) -> None:
    mqtt = pytest.importorskip("paho.mqtt.client")
    receiver = example("mqtt")["Mqtt"]
    sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    sender.connect("127.0.0.1", broker)
    sender.loop_start()
    try:
        at_once = {"spark.penstock.receiver.storeRetries": "0"}
        with ReceiverHarness(receiver("127.0.0.1", "t", "me", broker), at_once) as harness:

            def arrives() -> bool:
                sender.publish("t", b"first", qos=1).wait_for_publish(30)
                return bool(harness.count)

            # The session of the client id begins with the subscription: the first message may come before it.
            wait_for(arrives, "the first message")
            harness.hold()
            sender.publish("t", b"held", qos=1).wait_for_publish(30)
            wait_for(lambda: harness.offers > len(harness.blocks), "the block is offered")
            harness.refuse()
            harness.until_error("could not be stored")
        assert b"held" not in harness.records
        # Not acknowledged: the broker sends it again to the same client id.
        with ReceiverHarness(receiver("127.0.0.1", "t", "me", broker)) as harness:
            harness.until(lambda: b"held" in harness.records)
        assert harness.errors == []
        # What it answers now comes after the acknowledgements: the next session must not overtake them.
        sender.publish("another topic", b"", qos=1).wait_for_publish(30)
        # Acknowledged: it does not come again.
        with ReceiverHarness(receiver("127.0.0.1", "t", "me", broker)) as harness:
            sender.publish("t", b"last", qos=1).wait_for_publish(30)
            harness.until(lambda: b"last" in harness.records)
        assert set(harness.records) == {b"last"}
    finally:
        sender.disconnect()
        sender.loop_stop()


@pytest.mark.spark
def test_mqtt_messages_are_counted_on_spark(broker: int, run_example: RunExample) -> None:
    mqtt = pytest.importorskip("paho.mqtt.client")

    def act(example: Running) -> None:
        def is_counted() -> bool:
            sender.publish("t", b"message", qos=1).wait_for_publish(30)
            return any(line.isdecimal() and int(line) > 0 for line in example.lines)

        wait_for(is_counted, "a message is counted", poll_s=0.1)

    sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    sender.connect("127.0.0.1", broker)
    sender.loop_start()
    try:
        run_example("receivers/mqtt", "127.0.0.1", "t", act=act, replace={"port=1883": f"port={broker}"})
    finally:
        sender.disconnect()
        sender.loop_stop()


@pytest.mark.spark
@pytest.mark.usefixtures("frugal_plans")
def test_readings_of_mqtt_sensors_are_written_once(broker: int, run_example: RunExample, tmp_path: Path) -> None:
    mqtt = pytest.importorskip("paho.mqtt.client")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "readings"

    def written() -> list[tuple[str, float]]:
        # Before the first batch is complete, the folder is missing or has no columns.
        with contextlib.suppress(FileNotFoundError, ValueError):
            table = parquet.read_table(folder, columns=["sensor", "celsius"])
            return sorted(zip(*table.to_pydict().values(), strict=True))
        return []

    def act(_example: Running) -> None:
        def is_written() -> bool:
            sender.publish("sensors/kitchen/temperature", b"21.5", qos=1).wait_for_publish(30)
            return bool(written())

        # The session begins with the subscription: readings before it are nobody's.
        wait_for(is_written, "a reading is written", poll_s=0.1)
        sender.publish("sensors/cellar/temperature", b"12", qos=1).wait_for_publish(30)
        wait_for(lambda: ("cellar", 12.0) in written(), "the last reading is written")

    sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    sender.connect("127.0.0.1", broker)
    sender.loop_start()
    try:
        run_example("mqtt_sensors", "127.0.0.1", folder, act=act, replace={"port=1883": f"port={broker}"})
    finally:
        sender.disconnect()
        sender.loop_stop()
    assert [sensor for sensor, _ in written()].count("cellar") == 1


# -- Kafka --


@pytest.mark.spark
def test_orders_of_a_topic_are_summed_over_a_window_into_a_table(run_example: RunExample, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    from confluent_kafka import Producer

    from penstock_kafka.mock_cluster import MockCluster

    table = tmp_path / "sums"

    def rows() -> list[dict[str, Any]]:
        with contextlib.suppress(deltalake.exceptions.TableNotFoundError):
            return list(deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist())
        return []

    with MockCluster() as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("orders-dead")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for order in ('{"product": "tea", "amount": 2}', "no JSON", '{"product": "tea", "amount": 3}'):
            producer.produce("orders", order)
        assert producer.flush(30) == 0

        def act(_example: Running) -> None:
            wait_for(lambda: any(row["amount"] == 5 for row in rows()), "the sum of a window is written", poll_s=0.1)

        durations = {"WINDOW_S, SLIDE_S = 60, 10": "WINDOW_S, SLIDE_S = 4, 1"}
        run_example("kafka_orders", cluster.bootstrap_servers, table, act=act, replace=durations)
    assert {row["product"] for row in rows()} == {"tea"}
    times = [row["until"] for row in rows()]
    assert len(times) == len(set(times))


# -- webhook --


def post(port: int, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", "/", body)
        return connection.getresponse().status
    finally:
        connection.close()


def test_webhook_answers_200_once_a_request_is_stored() -> None:
    receiver = example("webhook")["Webhook"](0, "a-host")
    assert receiver.preferredLocation() == "a-host"
    with ReceiverHarness(receiver, {"spark.penstock.receiver.storeRetries": "0"}) as harness:
        wait_for(lambda: hasattr(harness.receiver, "server"), "the receiver listens")
        port = vars(harness.receiver)["server"].server_port
        assert [post(port, body) for body in (b"a", b"b")] == [200, 200]
        harness.until_records([b"a", b"b"])
        harness.refuse()
        assert post(port, b"c") == 503
        harness.accept()
    assert harness.records == [b"a", b"b"]


def test_webhook_tries_again_while_its_port_is_in_use() -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        with ReceiverHarness(example("webhook")["Webhook"](port)) as harness:
            harness.until_error(f"cannot listen on port {port}")
            other.close()
            wait_for(lambda: hasattr(harness.receiver, "server"), "the receiver listens")
            # While the receiver restarts, a caller gets 503 and sends again.
            wait_for(lambda: post(port, b"a") == 200, "the request is stored")
            assert harness.records == [b"a"]


@pytest.mark.spark
def test_webhook_prints_what_was_posted_on_spark(run_example: RunExample) -> None:
    def act(example: Running) -> None:
        def is_answered() -> bool:
            with contextlib.suppress(OSError):
                return post(port, b"hello") == 200
            return False

        wait_for(is_answered, "the request is stored", poll_s=0.05)
        example.until_lines("b'hello'")

    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    run_example("receivers/webhook", port, act=act)


# -- NATS JetStream --


def test_jetstream_messages_are_acknowledged_once_stored() -> None:
    with NatsServer() as server:
        stream = JsStream(server, "orders")
        stream.publish(*map(str, range(50)))
        with ReceiverHarness(example("jetstream")["JetStream"](server.url, "orders")) as harness:
            harness.until_count(50)
            assert harness.records == [str(number) for number in range(50)]
            wait_for(lambda: (stream.consumer("example").num_ack_pending or 0) == 0, "all are acknowledged")
            harness.hold()
            stream.publish("50")
            wait_for(lambda: stream.consumer("example").num_ack_pending == 1, "one more is in flight")
            harness.accept()
            wait_for(lambda: stream.consumer("example").num_ack_pending == 0, "it is acknowledged, too")
            wait_for(lambda: harness.info.source == SourceStatus(0), "there is no lag")
        assert harness.errors == []


# -- WebSocket --


@contextlib.contextmanager
def websocket_server() -> Iterator[str]:
    """The address of a server that greets each connection with its number, and closes it."""
    server = pytest.importorskip("websockets.asyncio.server")
    started: list[int] = []
    ports: list[int] = []
    ended = threading.Event()

    async def send(connection: Any) -> None:
        await connection.send(f"connection {len(started)}")
        started.append(0)

    async def serve() -> None:
        async with server.serve(send, "127.0.0.1", 0) as listening:
            ports.append(listening.sockets[0].getsockname()[1])
            await asyncio.to_thread(ended.wait, 120)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        wait_for(lambda: ports, "the server listens")
        yield f"ws://127.0.0.1:{ports[0]}/"
    finally:
        ended.set()
        thread.join(20)


def test_websocket_messages_are_stored_and_a_lost_connection_is_made_again() -> None:
    with (
        websocket_server() as address,
        ReceiverHarness(example("websocket")["WebSocket"](address)) as harness,
    ):
        harness.until(lambda: harness.count >= 2)
        harness.until_error("closed the connection")
    assert harness.records[:2] == ["connection 0", "connection 1"]


@pytest.mark.spark
def test_websocket_messages_are_printed_on_spark(run_example: RunExample) -> None:
    with websocket_server() as address:
        run_example("receivers/websocket", address, act=lambda example: example.until_lines("connection 0"))


# -- acknowledgements on a socket --


def test_line_is_acknowledged_only_once_it_is_stored_also_after_a_stop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        harness = ReceiverHarness(example("acknowledged")["Acknowledged"](*server.getsockname()))
        with harness:
            connection, _ = server.accept()
            connection.settimeout(20)
            answers = connection.makefile()
            connection.sendall(b"1 one\n")
            assert answers.readline() == "OK 1\n"
            harness.hold()
            connection.sendall(b"2 two\n3 three\n")
            wait_for(lambda: harness.offers > len(harness.blocks), "the block is offered")
            harness.receiver.restart("stopped with unacknowledged lines", delay_ms=3_600_000)
            wait_for(harness.receiver.isStopped, "the receiver stops")
            harness.accept()
            assert [answers.readline(), answers.readline(), answers.readline()] == ["OK 2\n", "OK 3\n", ""]
        connection.close()
        answers.close()
    assert harness.records == ["one", "two", "three"]


@pytest.mark.spark
def test_acknowledged_lines_are_printed_on_spark(run_example: RunExample, server: LineServer) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection, connection.makefile() as answers:
            connection.sendall(b"1 one\n2 two\n")
            assert [answers.readline(), answers.readline()] == ["OK 1\n", "OK 2\n"]
            example.until_lines("one", "two")

    run_example("receivers/acknowledged", *server.address, act=act)


# -- several instances --


def test_parts_together_read_all() -> None:
    part, records = example("parallel")["Part"], []
    for number in range(3):
        with ReceiverHarness(part(number, 3)) as harness:
            harness.until_count(100)
        records += harness.records
    assert sorted(records) == list(range(300))


@pytest.mark.spark
def test_several_instances_run_united_on_spark(run_example: RunExample) -> None:
    def act(example: Running) -> None:
        wait_for(lambda: sum(int(line) for line in example.lines if line.isdecimal()) == 300, "all numbers")

    run_example("receivers/parallel", act=act)
