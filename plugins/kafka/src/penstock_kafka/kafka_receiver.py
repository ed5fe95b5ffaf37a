"""``KafkaReceiver``: stores the records of topics; offsets are stored with the records, and committed afterwards."""

from __future__ import annotations

from typing import Any

from penstock import ThreadReceiver
from penstock_kafka.options import KafkaOptions


class KafkaReceiver(ThreadReceiver[Any]):
    """A member of a consumer group or of a share group.

    Args:
        options: brokers, topics and columns.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def receive(self) -> None:
        # The client is imported where it runs: the driver needs the options only.
        from penstock_kafka.partition_reader import PartitionReader
        from penstock_kafka.share_reader import ShareReader

        reader = ShareReader if self._options.group_type == "share" else PartitionReader
        with reader(self, self._options) as reading:
            reading.run()
