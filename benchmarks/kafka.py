"""Compare the receiver ``kafka`` with the bare client in a loop that commits as often: ``python -m benchmarks.kafka``.

The server is librdkafka's mock cluster in the process of this program. Each measurement is a process of its own, so its
processor time includes the threads of the client. A round takes about ten seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from penstock import Block, ReceiverHost, StoredBlock
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock_kafka import KafkaOptions, KafkaReceiver
from penstock_kafka.mock_cluster import MockCluster

_TOPIC = "records"
_PARTITIONS = 16
# The mock cluster holds about 5 MB per partition.
_COUNTS = {100: 400_000, 1000: 60_000}
_BATCH = 10_000
_INTERVAL_S = 0.2
_GROUPS = {"group.protocol": "consumer"}
_PARTS = ("bare", "receiver", "all columns")
_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
_numbers = itertools.count()


def bare(servers: str, group: str, count: int) -> tuple[float, float]:
    """Fetch and commit, and do nothing else; returns seconds of wall and processor time."""
    settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", **_GROUPS}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 2})
    consumer.subscribe([_TOPIC])
    began = None
    seen = 0
    while seen < count:
        records = consumer.consume(_BATCH, _INTERVAL_S)
        if records and began is None:
            began = time.perf_counter(), time.process_time()
        seen += len(records)
        last = dict(zip(map(Message.partition, records), map(Message.offset, records), strict=True))
        if last:
            offsets = [TopicPartition(_TOPIC, number, offset + 1) for number, offset in last.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
    assert began is not None
    spent = time.perf_counter() - began[0], time.process_time() - began[1]
    consumer.close()
    return spent


class _Files(LocalBlockHandler):
    """Stores blocks as files, as an executor does, and notes when the first and the last are stored."""

    count = 0
    began: tuple[float, float] | None = None

    def store(self, block: Block) -> StoredBlock:
        if self.began is None:
            self.began = time.perf_counter(), time.process_time()
        return super().store(block)

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        self.count += sum(block.num_records for block in blocks)


def receiver(servers: str, group: str, count: int, columns: Sequence[str]) -> tuple[float, float]:
    """Receive into block files; returns seconds of wall and processor time."""
    import pandas  # noqa: F401  # not to be measured

    options = KafkaOptions(
        bootstrap_servers=servers, topics=(_TOPIC,), group_id=group, settings=_GROUPS, columns=tuple(columns)
    )
    with tempfile.TemporaryDirectory() as folder:
        files = _Files(Path(folder))
        with ReceiverHost(KafkaReceiver(options), files) as host:
            # The first batch is fetched before it is stored, and that is part of the work.
            while host.stored_records < count:
                time.sleep(0.005)
            assert files.began is not None
            return time.perf_counter() - files.began[0], time.process_time() - files.began[1]


def measure(part: str, servers: str, count: int) -> tuple[float, float]:
    """Run a part in a process of its own."""
    group = f"group-{next(_numbers)}"
    command = [sys.executable, "-m", "benchmarks.kafka", "--part", part, "--server", servers, group, str(count)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall, processor = json.loads(answer.splitlines()[-1])
    return wall, processor


def fill(servers: str, size: int, count: int) -> None:
    """Produce the records."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 2})
    for number in range(count):
        while True:
            try:
                producer.produce(_TOPIC, b"x" * size, key=str(number), partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def main() -> None:
    """Print one line per size and part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=_PARTS)
    parser.add_argument("--server", nargs=3, metavar=("SERVERS", "GROUP", "COUNT"))
    arguments = parser.parse_args()
    if arguments.part:
        servers, group, count = arguments.server
        if arguments.part == "bare":
            spent = bare(servers, group, int(count))
        else:
            columns = (
                ("value",) if arguments.part == "receiver" else ("key", "value", "partition", "offset", "timestamp")
            )
            spent = receiver(servers, group, int(count), columns)
        print(json.dumps(spent))
        return
    print("bytes  part         records/s  processor µs per record  of bare (median of rounds)")
    for size, count in _COUNTS.items():
        with MockCluster() as cluster:
            cluster.create_topic(_TOPIC, _PARTITIONS)
            fill(cluster.bootstrap_servers, size, count)
            rounds = [
                {part: measure(part, cluster.bootstrap_servers, count) for part in _PARTS}
                for _ in range(arguments.rounds)
            ]
        for part in _PARTS:
            wall = statistics.median(spent[part][0] for spent in rounds)
            processor = statistics.median(spent[part][1] for spent in rounds)
            share = statistics.median(spent["bare"][0] / spent[part][0] for spent in rounds)
            of_processor = statistics.median(spent["bare"][1] / spent[part][1] for spent in rounds)
            speed = f"{count / wall:9,.0f}  {processor / count * 1e6:23.2f}"
            print(
                f"{size:5}  {part:11}  {speed}  {share:.2f} by wall, {of_processor:.2f} by processor time", flush=True
            )


if __name__ == "__main__":
    main()
