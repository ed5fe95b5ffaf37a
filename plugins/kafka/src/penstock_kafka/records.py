"""``RecordReader``: turns records of a client into Arrow columns; and the positions of records.

Every function on the path of a record is called by ``map`` from C, because a record costs the client 1.5 µs in all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from attrs import frozen
from confluent_kafka import Message

from penstock_brokers import ColumnReader, decode
from penstock_kafka.options import KafkaOptions

#: A topic and the number of one of its partitions.
Partition = tuple[str, int]
#: Decodes a value of a topic to something that JSON can hold.
Deserializer = Callable[[str, bytes], Any]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TIMESTAMP = pa.timestamp("ms", tz="UTC")
_PART = "/"


def table_reader(
    options: KafkaOptions, deserialize: Deserializer | None = None
) -> Callable[[Sequence[Message]], pa.Table]:
    """The function that makes a table of records, or raises ``ValueError`` if one cannot be decoded.

    Args:
        options: the columns and their types.
        deserialize: deserializers of Avro and Protobuf.
    """
    value_as = options.value_as

    def values(records: Sequence[Message]) -> pa.Array:
        if value_as == "avro" or value_as == "protobuf":
            assert deserialize is not None
            return _deserialized(deserialize, records)
        return decode(list(map(Message.value, records)), value_as)

    key_type = pa.string() if options.key_as == "text" else pa.binary()
    return ColumnReader[Message](
        options.columns,
        {
            "value": values,
            "key": lambda records: pa.array(list(map(Message.key, records)), pa.binary()).cast(key_type),
            "headers": lambda records: pa.array([record.headers() or [] for record in records], _HEADERS),
            "topic": lambda records: pa.array(list(map(Message.topic, records)), pa.string()),
            "partition": lambda records: pa.array(list(map(Message.partition, records)), pa.int32()),
            "offset": lambda records: pa.array(list(map(Message.offset, records)), pa.int64()),
            "timestamp": _timestamps,
            "deliveries": lambda records: pa.array([record.delivery_count() or None for record in records], pa.int32()),
        },
    )


def _timestamps(records: Sequence[Message]) -> pa.Array:
    times = list(map(Message.timestamp, records))
    # A time of kind 0 is unknown.
    if not all(map(itemgetter(0), times)):
        return pa.array([time_ms if kind else None for kind, time_ms in times], _TIMESTAMP)
    return pa.array(list(map(itemgetter(1), times)), pa.int64()).cast(_TIMESTAMP)


def _deserialized(deserialize: Deserializer, records: Sequence[Message]) -> pa.Array:
    def text(record: Message) -> str | None:
        value = record.value()
        return None if value is None else json.dumps(deserialize(record.topic() or "", value), default=str)

    return pa.array(list(map(text, records)), pa.string())


@frozen
class Offsets:
    """The offsets of records, in the order of the records.

    Attributes:
        topics: the topic of each record, or the one of all.
        numbers: the number of its partition.
        offsets: its offset.
    """

    topics: str | Sequence[str]
    numbers: Sequence[int]
    offsets: Sequence[int]

    @classmethod
    def of(cls, records: Sequence[Message], topic: str | None) -> Offsets:
        """Those of some records.

        Args:
            records: without errors.
            topic: topic of all records; ``None`` if they may have several.
        """
        topics: Any = topic or list(map(Message.topic, records))
        numbers: Iterable[Any] = map(Message.partition, records)
        offsets: Iterable[Any] = map(Message.offset, records)
        return cls(topics, list(numbers), list(offsets))

    def after(self, count: int | None = None) -> dict[Partition, int]:
        """The next offset of each partition after the first ``count`` records, all by default."""
        numbers, offsets = self.numbers[:count], self.offsets[:count]
        # A later record of a partition replaces an earlier one. No object per record remains: they would be counted for
        # the garbage collector.
        if isinstance(self.topics, str):
            last = dict(zip(numbers, offsets, strict=True))
            return {(self.topics, number): offset + 1 for number, offset in last.items()}
        of_topics = dict(zip(zip(self.topics[:count], numbers, strict=True), offsets, strict=True))
        return {partition: offset + 1 for partition, offset in of_topics.items()}


def position_of(offsets: dict[Partition, int]) -> dict[str, int]:
    """Numbers by ``topic/partition``; of next offsets, this is the position that is stored with a block."""
    return {f"{topic}{_PART}{number}": offset for (topic, number), offset in offsets.items()}


def offsets_of(position: Any) -> dict[Partition, int]:
    """The offsets of a position; other keys are ignored."""
    parts = ((key.rpartition(_PART), offset) for key, offset in position.items())
    return {(topic, int(number)): offset for (topic, part, number), offset in parts if part and number.isdigit()}
