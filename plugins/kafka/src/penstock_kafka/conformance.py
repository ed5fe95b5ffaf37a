"""Conformance suite of the receiver ``kafka``, for ``penstock plugins check kafka``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock_kafka.server import KafkaMockServer
from penstock_testing import Capabilities, Feeder, ReceiverSuite

_PUBLISH_S = 30.0
_numbers = itertools.count()


class TopicFeeder(Feeder):
    """Produces to one partition of a topic of its own, in librdkafka's mock cluster."""

    # The sources of one check share a cluster.
    _cluster: ClassVar[KafkaMockServer | None] = None
    _users: ClassVar[int] = 0

    def __init__(self) -> None:
        if TopicFeeder._cluster is None:
            cluster = KafkaMockServer()
            cluster.start()
            TopicFeeder._cluster = cluster
        TopicFeeder._users += 1
        self._server = TopicFeeder._cluster
        self._topic, self._group = (f"{name}-{next(_numbers)}" for name in ("records", "group"))
        connection = {"bootstrap.servers": self._server.bootstrap_servers, "log_level": 0, "linger.ms": 0}
        self._producer = Producer({**connection, "reconnect.backoff.max.ms": 100})
        # Asking for it creates it.
        self._producer.list_topics(self._topic, timeout=_PUBLISH_S)
        # It connects to the broker now: a check counts the connections of the receiver.
        self._producer.produce(f"connections-of-{self._topic}", b"")
        self._flush()
        self._records = list[Any]()
        # Ends the present outage.
        self._recover: Callable[[], None] | None = None
        self._acknowledged = list[Any]()

    def options(self) -> Mapping[str, Any]:
        return {"bootstrap_servers": self._server.bootstrap_servers, "topics": (self._topic,), "group_id": self._group}

    def put(self, records: Sequence[Any]) -> None:
        for record in records:
            self._produce(record.encode())
        self._records += records
        # While the server is away, the producer keeps them.
        if self._recover is None:
            self._flush()

    def put_bad(self) -> None:
        self._produce(b"\xff\xfe")
        self._records.append(None)
        self._flush()

    def pause(self) -> None:
        self._look()
        self._server.suspend()
        self._recover = self._server.resume

    def cut(self) -> None:
        self._look()
        self._server.cut()
        self._recover = self._server.heal

    def heal(self) -> None:
        self._end_outage()
        self._flush()

    def acknowledged(self) -> list[Any]:
        self._look()
        return self._acknowledged

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        offsets = {key.removeprefix(f"{self._topic}/"): offset for key, offset in position.items()}
        # The group's own offsets would count.
        return {"start": json.dumps({self._topic: offsets}), "group_id": f"{self._group}-{next(_numbers)}"}

    def close(self) -> None:
        self._end_outage()
        self._producer.purge()
        TopicFeeder._users -= 1
        if not TopicFeeder._users:
            self._server.close()
            TopicFeeder._cluster = None

    def _end_outage(self) -> None:
        if self._recover is not None:
            self._recover()
            self._recover = None

    def _produce(self, value: bytes) -> None:
        self._producer.produce(self._topic, value, partition=0, on_delivery=_check)

    def _flush(self) -> None:
        if self._producer.flush(_PUBLISH_S):
            raise TimeoutError(f"the mock cluster did not take all records within {_PUBLISH_S:g} s")

    def _look(self) -> None:
        """Ask the group what it has committed; a server that is away changes nothing."""
        if self._recover is None:
            connection = {"bootstrap.servers": self._server.bootstrap_servers, "log_level": 0}
            consumer = Consumer({**connection, "group.id": self._group})
            (committed,) = consumer.committed([TopicPartition(self._topic, 0)], timeout=_PUBLISH_S)
            consumer.close()
            self._acknowledged = [record for record in self._records[: max(committed.offset, 0)] if record is not None]


def _check(error: KafkaError | None, _record: Message) -> None:
    if error is not None:
        raise ConnectionError(error.str())


class KafkaSuite(ReceiverSuite):
    """The receiver ``kafka`` in a consumer group."""

    name = "kafka"
    feeder = TopicFeeder
    options: ClassVar = {
        "dead_letter": "rejected",
        # The mock cluster ends the membership of a client at once in the newer protocol of groups only.
        "settings": {"group.protocol": "consumer", "reconnect.backoff.max.ms": "100"},
    }
    capabilities = Capabilities(acknowledged=True, replayable=True, arrow=True)
