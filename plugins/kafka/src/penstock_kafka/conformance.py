"""Conformance suite of the receiver ``kafka``, for ``penstock plugins check kafka``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message as Record, Producer, TopicPartition

from penstock_kafka.server import KafkaMockServer
from penstock_testing import Capabilities, DeadLetter, Feeder, Message, ReceiverSuite

_PUBLISH_S = 30.0
# A group excludes a member that does not poll for this long.
_LEASE_S = 2.0
_numbers = itertools.count()


class TopicFeeder(Feeder):
    """Produces to one partition of a topic of its own, in librdkafka's mock cluster."""

    lease_s = _LEASE_S
    rebalances = True
    lacks: ClassVar = {
        "refused_acknowledgements": "the mock cluster does not show which commits it has refused",
        "in_flight": "the broker does not know what of a partition is on its way to the owner",
    }
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
        self._topic, self._group, self._dead = (f"{name}-{next(_numbers)}" for name in ("records", "group", "dead"))
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
        return {
            "bootstrap_servers": self._server.bootstrap_servers,
            "topics": (self._topic,),
            "group_id": self._group,
            "dead_letter": self._dead,
        }

    def put(self, records: Sequence[Any]) -> None:
        for record in records:
            self._produce(record.encode())
        self._records += records
        # While the server is away, the producer keeps them.
        if self._recover is None:
            self._flush()

    def put_bad(self) -> Message:
        bad = Message(b"\xff\xfe", {"unit": "K"})
        self._produce(bad.value, bad.headers)
        self._records.append(None)
        self._flush()
        return bad

    def oversize(self) -> tuple[Any, str]:
        # Nearly the largest that a producer sends by default.
        return "x" * 990_000, "stored"

    def dead_letters(self) -> list[DeadLetter]:
        connection = {"bootstrap.servers": self._server.bootstrap_servers, "log_level": 0, "group.id": self._dead}
        consumer = Consumer({**connection, "enable.partition.eof": True})
        partitions = consumer.list_topics(self._dead, timeout=_PUBLISH_S).topics[self._dead].partitions
        consumer.assign([TopicPartition(self._dead, each, OFFSET_BEGINNING) for each in partitions])
        letters, left = list[DeadLetter](), len(partitions)
        while left:
            record = consumer.poll(_PUBLISH_S)
            if record is not None and record.error() is None:
                letters.append(_dead_letter(record))
            else:
                # The end of a partition.
                left -= 1
        consumer.close()
        return letters

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

    def _produce(self, value: bytes, headers: Mapping[str, str] = {}) -> None:
        given: dict[str, str | bytes | None] = dict(headers)
        self._producer.produce(self._topic, value, partition=0, headers=given, on_delivery=_check)

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


def _dead_letter(record: Record) -> DeadLetter:
    pairs: Any = record.headers()
    headers = {name: value.decode() for name, value in pairs}
    return DeadLetter(Message(record.value() or b"", headers), headers["penstock-error"])


def _check(error: KafkaError | None, _record: Record) -> None:
    if error is not None:
        raise ConnectionError(error.str())


class KafkaSuite(ReceiverSuite):
    """The receiver ``kafka`` in a consumer group."""

    name = "kafka"
    feeder = TopicFeeder
    options: ClassVar = {
        # The mock cluster ends the membership of a client at once in the newer protocol of groups only.
        "settings": {
            "group.protocol": "consumer",
            "reconnect.backoff.max.ms": "100",
            "max.poll.interval.ms": str(round(_LEASE_S * 1000)),
        },
    }
    # A batch in flight that is not stored within 5 s when a partition goes to another member is repeated there.
    capabilities = Capabilities(acknowledged=True, replayable=True, repeats_in_rebalance=True, arrow=True)
