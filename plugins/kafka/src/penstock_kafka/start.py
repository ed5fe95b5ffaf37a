"""The first offsets of partitions that neither the group nor the stream has read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from penstock_kafka.options import parse_start
from penstock_kafka.records import Partition


def start_offsets(
    consumer: Consumer, start: str, partitions: Sequence[Partition], timeout_s: float
) -> dict[Partition, int]:
    """Resolve the option ``start``; an offset is a number, so that it can be committed before anything is read.

    Args:
        consumer: asks the broker.
        start: the value of the option.
        partitions: partitions of any topics.
        timeout_s: per request.

    Raises:
        KafkaException: the broker does not answer in time.
    """
    where = parse_start(start)
    offsets = {partition: _wanted(where, partition) for partition in partitions}
    if isinstance(where, datetime):
        time_ms = round(where.timestamp() * 1000)
        found = consumer.offsets_for_times(
            [TopicPartition(topic, number, time_ms) for topic, number in partitions], timeout=timeout_s
        )
        # No record is as young: the end.
        offsets = {(each.topic, each.partition): each.offset if each.offset >= 0 else OFFSET_END for each in found}
    return {partition: _resolved(consumer, partition, offset, timeout_s) for partition, offset in offsets.items()}


def _wanted(where: object, partition: Partition) -> int:
    topic, number = partition
    if isinstance(where, dict):
        return int(where.get(topic, {}).get(str(number), OFFSET_BEGINNING))
    return OFFSET_END if where == "latest" else OFFSET_BEGINNING


def _resolved(consumer: Consumer, partition: Partition, offset: int, timeout_s: float) -> int:
    if offset not in (OFFSET_BEGINNING, OFFSET_END):
        return offset
    low, high = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=timeout_s)
    return high if offset == OFFSET_END else low
