"""A start at a time is a question to the broker; its answer is the offset."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicPartition

from penstock_kafka.start import start_offsets


class Broker:
    """Answers as a broker whose partition 0 has a record after the time, and partition 1 none."""

    asked_ms: list[int]

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.asked_ms = [each.offset for each in partitions]
        return [TopicPartition(each.topic, each.partition, (17, -1)[each.partition]) for each in partitions]

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 3, 42


def test_time_becomes_the_offset_of_the_first_later_record_or_the_end() -> None:
    broker: Any = Broker()
    offsets = start_offsets(broker, "1970-01-01T00:00:02", [("t", 0), ("t", 1)], 1.0)
    assert broker.asked_ms == [2000, 2000]
    assert offsets == {("t", 0): 17, ("t", 1): 42}


def test_words_and_offsets_become_numbers() -> None:
    broker: Any = Broker()
    assert start_offsets(broker, "earliest", [("t", 0)], 1.0) == {("t", 0): 3}
    assert start_offsets(broker, "latest", [("t", 0)], 1.0) == {("t", 0): 42}
    assert start_offsets(broker, '{"t": {"0": 5}}', [("t", 0), ("u", 0)], 1.0) == {("t", 0): 5, ("u", 0): 3}
