"""The brokers of the fault lab: how numbers are published there, and how many are not acknowledged yet."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from benchmarks.faults.webhook_sender import ANSWER_S, Outbox
from penstock_brokers import BrokerServer, TcpProxy, free_port

T = TypeVar("T")

# Maximum time of a call to the broker.
_ANSWER_S = 5.0
# Time in which Mosquitto publishes its counts twice.
_SYS_S = 2.2


class FaultSource(ABC):
    """A broker with one queue, stream or topic of numbers as text.

    Args:
        server: the broker, not started.
        cut: see the attribute.
        save: see the attribute.

    Attributes:
        receiver: name of the receiver plugin.
        lease_s: how long the receiver may be silent before the broker delivers to another one.
        restarts: whether the broker can be restarted on its port, with and without its data.
        cut: breaks connections and refuses new ones within its ``with`` block, for a cluster that tells clients its own
            addresses; ``None``: the receiver connects through a proxy, which does.
        save: lets the broker save what it has confirmed, if a killed one loses what came since it last did.
    """

    receiver: ClassVar[str]
    lease_s: ClassVar[float]
    restarts: ClassVar[bool] = True

    def __init__(
        self,
        server: BrokerServer,
        *,
        cut: Callable[[], AbstractContextManager[None]] | None = None,
        save: Callable[[], None] | None = None,
    ) -> None:
        self.server = server
        self.cut = cut
        self.save = save

    @property
    def port(self) -> int:
        """The broker's port, to which the receiver connects; or the receiver's, to which the broker does."""
        return self.server.port

    def prepare(self) -> None:  # noqa: B027  # optional
        """Create what the broker needs before its first message; also called after a restart without data."""

    @abstractmethod
    def options(self, port: int) -> Mapping[str, str]:
        """The receiver's options.

        Args:
            port: where the receiver connects: that of the proxy, or of the broker.
        """

    @abstractmethod
    def publish(self, numbers: Sequence[int]) -> None:
        """Publish numbers; return when the broker has confirmed them. Any error means that it may have some."""

    @abstractmethod
    def remaining(self) -> int:
        """The number of messages that the broker has and that no receiver has acknowledged."""

    def disconnect(self) -> None:  # noqa: B027  # optional
        """Close the connections of this object; the next call connects again."""


class RedisSource(FaultSource):
    """A stream of Redis, here of Valkey, and one consumer group."""

    receiver = "redis"
    lease_s = 3.0

    def __init__(self) -> None:
        from penstock_redis.server import RedisServer

        super().__init__(RedisServer())
        self._client: Any = None

    def options(self, port: int) -> Mapping[str, str]:
        return {
            "host": "127.0.0.1",
            "port": str(port),
            "streams": "numbers",
            "columns": "value",
            "value_as": "text",
            "min_idle": str(self.lease_s),
        }

    def publish(self, numbers: Sequence[int]) -> None:
        with self._connected().pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.xadd("numbers", {"value": str(number)})
            pipeline.execute()

    def remaining(self) -> int:
        client = self._connected()
        if not client.exists("numbers"):
            return 0
        groups = client.xinfo_groups("numbers")
        if not groups:
            return int(client.xlen("numbers"))
        return int(groups[0]["lag"] or 0) + int(groups[0]["pending"])

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        if self._client is None:
            import redis

            self._client = redis.Redis("127.0.0.1", self.server.port, socket_timeout=_ANSWER_S)
        return self._client


class NatsSource(FaultSource):
    """A stream of NATS JetStream, and one durable consumer. Each call has a connection of its own."""

    receiver = "nats"
    lease_s = 3.0

    def __init__(self) -> None:
        from penstock_nats.nats_server import NatsServer

        super().__init__(NatsServer())

    def prepare(self) -> None:
        self._asked(lambda stream: stream.add_stream(name="numbers", subjects=["numbers.*"]))

    def options(self, port: int) -> Mapping[str, str]:
        return {
            "servers": f"nats://127.0.0.1:{port}",
            "stream": "numbers",
            "consumer": "lab",
            "ack_wait": str(self.lease_s),
        }

    def publish(self, numbers: Sequence[int]) -> None:
        async def publish(stream: Any) -> None:
            await asyncio.gather(*(stream.publish("numbers.all", str(number).encode()) for number in numbers))

        self._asked(publish)

    def remaining(self) -> int:
        from nats.js.errors import NotFoundError

        async def count(stream: Any) -> int:
            try:
                info = await stream.consumer_info("numbers", "lab")
            except NotFoundError:
                return int((await stream.stream_info("numbers")).state.messages)
            return int(info.num_pending) + int(info.num_ack_pending)

        return self._asked(count)

    def _asked(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        from nats.aio.client import Client

        async def run() -> T:
            client = Client()
            url = f"nats://127.0.0.1:{self.server.port}"
            await client.connect(url, allow_reconnect=False, error_cb=_ignored)
            try:
                return await ask(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(asyncio.wait_for(run(), _ANSWER_S))


class KafkaSource(FaultSource):
    """A topic of librdkafka's mock cluster, in memory and with addresses of its own, and one consumer group."""

    receiver = "kafka"
    lease_s = 6.0
    restarts = False

    def __init__(self) -> None:
        from penstock_kafka.server import KafkaMockServer

        self.cluster = KafkaMockServer()
        super().__init__(self.cluster, cut=self._cut_off)
        self._producer: Any = None

    @property
    def port(self) -> int:
        return int(self.cluster.bootstrap_servers.rpartition(":")[2])

    @contextmanager
    def _cut_off(self) -> Iterator[None]:
        self.cluster.cut()
        try:
            yield
        finally:
            self.cluster.heal()

    def options(self, port: int) -> Mapping[str, str]:
        return {
            "bootstrap_servers": f"127.0.0.1:{port}",
            "topics": "numbers",
            "group_id": "lab",
            "settings": f"session.timeout.ms={1000 * self.lease_s:.0f}",
        }

    def publish(self, numbers: Sequence[int]) -> None:
        if self._producer is None:
            from confluent_kafka import Producer

            settings = {"message.timeout.ms": 1000 * _ANSWER_S, "enable.idempotence": True}
            self._producer = Producer(self._settings() | settings)
        errors: list[Any] = []
        for number in numbers:
            self._producer.produce("numbers", str(number).encode(), on_delivery=lambda error, _: errors.append(error))
        self._producer.flush(2 * _ANSWER_S)
        if len(errors) < len(numbers) or any(errors):
            raise ConnectionError(f"{len(numbers)} numbers published, answers: {set(map(str, errors))}")

    def remaining(self) -> int:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(self._settings() | {"group.id": "lab"})
        try:
            partitions = consumer.list_topics("numbers", _ANSWER_S).topics["numbers"].partitions
            wanted = [TopicPartition("numbers", partition) for partition in partitions]
            remaining = 0
            for each in consumer.committed(wanted, _ANSWER_S):
                low, high = consumer.get_watermark_offsets(each, _ANSWER_S)
                # Below 0 without a commit.
                remaining += high - max(each.offset, low)
            return int(remaining)
        finally:
            consumer.close()

    def disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0}


class MqttSource(FaultSource):
    """A topic of an MQTT broker, here Mosquitto, and the session of one client.

    Mosquitto saves every second what it has confirmed. It publishes how many messages it has, as old as two seconds.
    """

    receiver = "mqtt"
    lease_s = 3.0

    def __init__(self) -> None:
        from penstock_mqtt.mosquitto_server import MosquittoServer

        self.mosquitto = MosquittoServer("allow_anonymous true", "sys_interval 1")
        super().__init__(self.mosquitto, save=self.mosquitto.save)
        self._publisher: Any = None

    def prepare(self) -> None:
        from penstock_mqtt.demo import begin_session
        from penstock_mqtt.mqtt_options import MqttOptions

        # Otherwise the broker keeps nothing for a receiver that has never been there.
        begin_session(MqttOptions(topics=("numbers",), client_id="lab", host="127.0.0.1", port=self.server.port))

    def options(self, port: int) -> Mapping[str, str]:
        return {
            "topics": "numbers",
            "client_id": "lab",
            "host": "127.0.0.1",
            "port": str(port),
            "columns": "value",
            "value_as": "text",
            # Without an answer for this long the connection counts as broken.
            "keepalive": "3",
        }

    def publish(self, numbers: Sequence[int]) -> None:
        from penstock_mqtt.publisher import Publisher

        if self._publisher is None:
            self._publisher = Publisher(self.server.port).__enter__()
        self._publisher.publish("numbers", [str(number).encode() for number in numbers])

    def remaining(self) -> int:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        counts: dict[str, int] = {}
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.on_message = lambda _client, _data, message: counts.update({message.topic: int(message.payload)})
        client.connect("127.0.0.1", self.server.port)
        topics = ("$SYS/broker/store/messages/count", "$SYS/broker/retained messages/count")
        client.subscribe([(topic, 0) for topic in topics])
        client.loop_start()
        # A change is published with the next count.
        time.sleep(_SYS_S)
        client.disconnect()
        client.loop_stop()
        stored, retained = (counts[topic] for topic in topics)
        return max(stored - retained, 0)

    def disconnect(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.__exit__(None, None, None)


class RabbitSource(FaultSource):
    """A durable queue of RabbitMQ; each message is confirmed once it is on the disk."""

    receiver = "rabbitmq"
    # A connection that is silent for longer than two heartbeats is closed, and what it has in flight redelivered.
    lease_s = 6.0

    def __init__(self) -> None:
        from penstock_rabbitmq.rabbit_server import RabbitServer

        self.rabbit = RabbitServer()
        super().__init__(self.rabbit)
        self._publisher: Any = None

    def prepare(self) -> None:
        self._connected().declare("numbers")

    def options(self, port: int) -> Mapping[str, str]:
        return {
            "queue": "numbers",
            "host": "127.0.0.1",
            "port": str(port),
            "columns": "value",
            "value_as": "text",
            "heartbeat": f"{self.lease_s / 2:.0f}",
        }

    def publish(self, numbers: Sequence[int]) -> None:
        self._connected().publish("numbers", [str(number).encode() for number in numbers], confirmed=True)

    def remaining(self) -> int:
        return int(self.rabbit.control("list_queues", "--quiet", "--no-table-headers", "messages").strip() or 0)

    def disconnect(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.__exit__(None, None, None)

    def _connected(self) -> Any:
        from penstock_rabbitmq.queue_publisher import QueuePublisher

        if self._publisher is None:
            self._publisher = QueuePublisher(self.server.port).__enter__()
        return self._publisher


class SenderServer(BrokerServer):
    """The process that sends webhooks, through a proxy. Its data is the outbox.

    Attributes:
        receiver_port: the receiver's port.
        proxy: stands before the receiver.
    """

    name = "sender"

    def __init__(self) -> None:
        super().__init__()
        self.receiver_port = free_port()
        self.proxy = TcpProxy("127.0.0.1", self.receiver_port)

    @property
    def outbox(self) -> Path:
        """The file of the outbox."""
        return self.data / "outbox.db"

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "benchmarks.faults.webhook_sender", self.outbox, str(self.proxy.port)]

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(Path(__file__).parents[2])}

    def answers(self) -> bool:
        try:
            with Outbox(self.outbox) as outbox:
                return len(outbox) >= 0
        except sqlite3.OperationalError:
            return False

    def close(self) -> None:
        super().close()
        self.proxy.close()


class WebhookSource(FaultSource):
    """A sender of webhooks, which repeats what was not answered with 2xx. Here the receiver is the server.

    A number is sent, in the words of the lab, once it is in the sender's outbox, and acknowledged by an answer of 2xx.
    """

    receiver = "webhook"
    lease_s = ANSWER_S

    def __init__(self) -> None:
        self.sender = SenderServer()
        super().__init__(self.sender, cut=self._cut_off)

    @property
    def port(self) -> int:
        return self.sender.receiver_port

    @contextmanager
    def _cut_off(self) -> Iterator[None]:
        self.sender.proxy.cut()
        try:
            yield
        finally:
            self.sender.proxy.heal()

    def options(self, port: int) -> Mapping[str, str]:
        # A request that waits for longer would be sent again meanwhile.
        max_wait_s = ANSWER_S / 2
        return {"port": str(port), "columns": "value", "records": "lines", "max_wait": str(max_wait_s)}

    def publish(self, numbers: Sequence[int]) -> None:
        with Outbox(self.sender.outbox) as outbox:
            outbox.add(numbers)

    def remaining(self) -> int:
        with Outbox(self.sender.outbox) as outbox:
            return len(outbox)


async def _ignored(_error: Exception) -> None:
    """Logs nothing: the server is down because the lab has killed it."""


#: Name of a broker → its source.
SOURCES: Mapping[str, Callable[[], FaultSource]] = {
    "redis": RedisSource,
    "nats": NatsSource,
    "mqtt": MqttSource,
    "kafka": KafkaSource,
    "rabbitmq": RabbitSource,
    "http": WebhookSource,
}
