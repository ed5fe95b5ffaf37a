"""Receivers of brokers beside their bare clients: ``python -m benchmarks.brokers redis``.

Each round fills a server of its own, and reads everything twice: by the client in a loop that fetches and acknowledges
batches of 1,000, and by the receiver, which stores them as well. Rounds alternate; a table has the medians, in
messages/s and in processor time of this process per message.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from penstock import ReceiverHost
from penstock.spi import Plugins, Settings

_BATCH = 1000
_SIZES = (100, 1000)


@frozen
class Broker:
    """A broker with messages.

    Attributes:
        read: reads and acknowledges all messages with the bare client.
        options: of the receiver.
    """

    read: Callable[[], object]
    options: dict[str, Any]


@frozen
class Speed:
    """How fast all messages were read, in messages/s, and the processor time per message in microseconds."""

    per_s: float
    processor_us: float


@contextmanager
def nats_broker(count: int, size: int) -> Iterator[Broker]:
    """A JetStream with messages, and two consumers of it."""
    from nats.aio.client import Client

    from penstock_nats.nats_server import NatsServer

    async def fill() -> None:
        client = Client()
        await client.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="s", subjects=["s.*"])
        for number in range(count):
            await client.publish("s.a", f"{number}".encode().ljust(size))
        await client.flush()
        while (await js.stream_info("s")).state.messages < count:
            await asyncio.sleep(0.01)
        await client.close()

    async def read() -> None:
        client = Client()
        await client.connect(server.url)
        js = client.jetstream()
        subscription = await js.pull_subscribe("s.*", "bare", stream="s")
        left = count
        while left:
            messages = await subscription.fetch(_BATCH, 5)
            for message in messages[:-1]:
                await message.ack()
            await messages[-1].ack_sync(5)
            left -= len(messages)
        await client.close()

    with NatsServer() as server:
        asyncio.run(fill())
        options = {"servers": server.url, "stream": "s", "consumer": "c", "value_as": "bytes", "batch": _BATCH}
        yield Broker(lambda: asyncio.run(read()), options)


@contextmanager
def redis_broker(count: int, size: int) -> Iterator[Broker]:
    """A stream of Valkey, and two consumer groups of it. The client parses replies with hiredis."""
    from penstock_redis.server import RedisServer

    with RedisServer() as server, server.client() as client:
        with client.pipeline(transaction=False) as pipeline:
            for number in range(count):
                pipeline.xadd("s", {"value": f"{number}".encode().ljust(size)})
                if len(pipeline) == _BATCH:
                    pipeline.execute()
            pipeline.execute()

        def read() -> None:
            client.xgroup_create("s", "bare", "0")
            left = count
            while left:
                ((_, entries),) = client.xreadgroup("bare", "c", {"s": ">"}, _BATCH)
                client.xack("s", "bare", *(entry_id for entry_id, _ in entries))
                left -= len(entries)

        options = {"host": "127.0.0.1", "port": server.port, "streams": "s", "value_as": "bytes", "fetch_size": _BATCH}
        yield Broker(read, options)


@contextmanager
def mqtt_broker(count: int, size: int) -> Iterator[Broker]:
    """A Mosquitto with messages in two sessions."""
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    from penstock_mqtt import MqttOptions
    from penstock_mqtt.demo import begin_session
    from penstock_mqtt.mosquitto_server import MosquittoServer
    from penstock_mqtt.publisher import Publisher

    def read() -> None:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, "bare", protocol=mqtt.MQTTv5, manual_ack=True)
        done, waiting, left = threading.Event(), list[int](), count

        def on_message(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
            nonlocal left
            left -= 1
            waiting.append(message.mid)
            if len(waiting) == _BATCH or not left:
                for packet_id in waiting:
                    client.ack(packet_id, 1)
                waiting.clear()
                if not left:
                    done.set()

        client.on_message = on_message
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval, properties.ReceiveMaximum = 3600, 2 * _BATCH
        client.connect("127.0.0.1", server.port, clean_start=False, properties=properties)
        client.loop_start()
        if not done.wait(300):
            raise TimeoutError(f"{left} of {count} messages not read within 300 s")
        client.disconnect()
        client.loop_stop()

    with MosquittoServer() as server:
        for name in ("bare", "receiver"):
            begin_session(MqttOptions(topics=("t",), client_id=name, host="127.0.0.1", port=server.port))
        with Publisher(server.port) as publisher:
            publisher.publish("t", [b"%d" % number + bytes(size - len(str(number))) for number in range(count)])
        options = {"topics": "t", "client_id": "receiver", "host": "127.0.0.1", "port": server.port, "columns": "value"}
        yield Broker(read, {**options, "receive_maximum": 2 * _BATCH})


@contextmanager
def rabbitmq_broker(count: int, size: int) -> Iterator[Broker]:
    """A RabbitMQ with two queues of messages."""
    import pika

    from penstock_rabbitmq.queue_publisher import QueuePublisher
    from penstock_rabbitmq.rabbit_server import RabbitServer

    def read() -> None:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=2 * _BATCH)
        for number, (method, _properties, _body) in enumerate(channel.consume("bare"), 1):
            if number % _BATCH == 0 or number == count:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if number == count:
                break
        connection.close()

    with RabbitServer() as server:
        with QueuePublisher(server.port) as publisher:
            for queue in ("bare", "receiver"):
                publisher.declare(queue)
                publisher.publish(queue, [b"%d" % number + bytes(size - len(str(number))) for number in range(count)])
        options = {"queue": "receiver", "host": "127.0.0.1", "port": server.port, "columns": "value"}
        yield Broker(read, {**options, "prefetch": 2 * _BATCH})


BROKERS = {"mqtt": mqtt_broker, "nats": nats_broker, "rabbitmq": rabbitmq_broker, "redis": redis_broker}


def receive(name: str, options: dict[str, Any], count: int) -> None:
    """Read all messages with the receiver, and forget them once they are stored."""
    done, left = threading.Event(), count
    receiver = Plugins().make("receivers", name, Settings.parse({}), options)

    def sink(block: Any) -> None:
        nonlocal left
        left -= block.num_records
        if left <= 0:
            done.set()

    with ReceiverHost(receiver, sink):
        if not done.wait(300):
            raise TimeoutError(f"the receiver {name} has not stored {left} of {count} messages within 300 s")


def measured(count: int, read: Callable[[], object]) -> Speed:
    """Time a call."""
    began_s, processor_s = time.perf_counter(), time.process_time()
    read()
    took_s, used_s = time.perf_counter() - began_s, time.process_time() - processor_s
    return Speed(count / took_s, used_s / count * 1e6)


def table(name: str, count: int, rounds: int) -> Iterator[str]:
    """The rows of a broker's table, as they are measured."""
    yield f"{count:,} messages, batches of {_BATCH:,}, median of {rounds} rounds"
    yield "| broker | bytes | bare client | receiver | ratio | processor: bare | receiver |"
    yield "|---|---|---|---|---|---|---|"
    for size in _SIZES:
        speeds: dict[str, list[Speed]] = {"bare": [], "receiver": []}
        for _ in range(rounds):
            with BROKERS[name](count, size) as broker:
                speeds["bare"].append(measured(count, broker.read))
                speeds["receiver"].append(measured(count, lambda: receive(name, broker.options, count)))
        bare, receiver = (
            Speed(
                statistics.median(speed.per_s for speed in found),
                statistics.median(speed.processor_us for speed in found),
            )
            for found in speeds.values()
        )
        rates = f"{bare.per_s:,.0f}/s | {receiver.per_s:,.0f}/s | {receiver.per_s / bare.per_s:.2f}"
        yield f"| {name} | {size:,} | {rates} | {bare.processor_us:.0f} µs | {receiver.processor_us:.0f} µs |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("broker", choices=sorted(BROKERS))
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    import pandas  # noqa: F401  # the first start of a receiver imports it, which is not to be measured

    for row in table(arguments.broker, arguments.messages, arguments.rounds):
        print(row, flush=True)


if __name__ == "__main__":
    main()
