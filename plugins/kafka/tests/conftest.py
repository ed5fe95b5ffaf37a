"""A mock cluster inside the test's process, topics, and receivers that read them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock_kafka import KafkaOptions, KafkaReceiver
from penstock_kafka.mock_cluster import MockCluster

#: The mock cluster ends the membership of a client at once in the newer protocol of groups only.
QUICK = {"group.protocol": "consumer", "reconnect.backoff.max.ms": "100"}
_TIMEOUT_S = 30.0


class Topic:
    """A topic, and the group that the tests read it with."""

    def __init__(self, cluster: MockCluster, name: str, partitions: int) -> None:
        self.cluster = cluster
        self.name = name
        self.group = f"group-of-{name}"
        cluster.create_topic(name, partitions)
        self.renew_producer()

    def renew_producer(self) -> None:
        """Take a producer that does not remember the partitions."""
        self.producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0, "linger.ms": 0})

    def put(self, *values: str | bytes | None, partition: int = 0, **fields: Any) -> None:
        """Produce records."""
        for value in values:
            self.producer.produce(self.name, value, partition=partition, **fields)
        assert self.producer.flush(_TIMEOUT_S) == 0

    def receiver(self, **options: Any) -> KafkaReceiver:
        """A receiver of the topic."""
        given = {"topics": (self.name,), "group_id": self.group, "settings": QUICK, **options}
        return KafkaReceiver(KafkaOptions(bootstrap_servers=self.cluster.bootstrap_servers, **given))

    def committed(self, partition: int = 0) -> int:
        """The next offset that the group has committed."""
        settings = {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": self.group, "log_level": 0}
        consumer = Consumer(settings)
        (found,) = consumer.committed([TopicPartition(self.name, partition)], timeout=_TIMEOUT_S)
        consumer.close()
        return int(found.offset)

    def read(self, topic: str, count: int) -> list[Any]:
        """Records of another topic."""
        settings = {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "reader", "log_level": 0}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", **QUICK})
        consumer.subscribe([topic])
        records: Sequence[Any] = consumer.consume(count, _TIMEOUT_S)
        consumer.close()
        return [record for record in records if record.error() is None]


MakeTopic = Callable[..., Topic]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[MockCluster]:
    # A start of a receiver imports it, and has a deadline.
    import pandas  # noqa: F401

    with MockCluster() as cluster:
        yield cluster


@pytest.fixture
def make_topic(cluster: MockCluster) -> MakeTopic:
    """Makes topics with names of their own."""
    return lambda partitions=1: Topic(cluster, f"topic-{next(_numbers)}", partitions)


@pytest.fixture
def topic(make_topic: MakeTopic) -> Topic:
    """A topic with one partition."""
    return make_topic()
