"""A receiver of Kafka topics: consumer groups and share groups, by confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import ReceiverSpec, hookimpl
from penstock_kafka.kafka_receiver import KafkaReceiver
from penstock_kafka.options import KafkaOptions

__all__ = ["KafkaOptions", "KafkaReceiver", "receivers"]


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``kafka``."""
    return (ReceiverSpec("kafka", KafkaReceiver, KafkaOptions, "records of Kafka topics"),)
