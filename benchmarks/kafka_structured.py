"""Kafka in Structured Streaming, beside a Python data source: ``python -m benchmarks.kafka_structured``.

The data source uses the same client, and is written for speed: it asks for offsets when a batch is planned, each task
reads one partition with a consumer that its worker keeps, and yields Arrow record batches. Both queries read from
librdkafka's mock cluster and add up the lengths of all values. A run begins with a few records. Once the query has
counted them, the topic is filled, and the clock runs until all records are counted. Each run is a process of its own,
and runs alternate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock_cli.java import ensure_java
from penstock_kafka.server import KafkaMockServer

_PARTITIONS = 4
_FEW = 100
_BATCH = 10_000
_SIZES = (100, 1000)
_SOURCES = ("penstock", "arrow")
_WAIT_S = 10.0
_DEADLINE_S = 180.0
# The consumers of this worker, by server and topic.
_consumers: dict[tuple[str, str], Consumer] = {}


@frozen
class Range(InputPartition):
    """The records of a partition from one offset to before another."""

    number: int
    start: int
    end: int


class RecordReader(DataSourceStreamReader):
    """Reads ranges of offsets, as Arrow.

    Args:
        servers: where the client connects.
        topic: with four partitions.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic

    def initialOffset(self) -> dict[str, int]:
        """The first records."""
        return {str(number): 0 for number in range(_PARTITIONS)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The ends of the partitions."""
        partitions = (TopicPartition(self._topic, number) for number in range(_PARTITIONS))
        consumer = self._consumer()
        return {str(each.partition): consumer.get_watermark_offsets(each, timeout=_WAIT_S)[1] for each in partitions}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One task for each partition with records."""
        ranges = (Range(int(number), start[number], end[number]) for number in end)
        return [each for each in ranges if each.end > each.start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The values of a range."""
        assert isinstance(partition, Range)
        consumer, left = self._consumer(), partition.end - partition.start
        consumer.assign([TopicPartition(self._topic, partition.number, partition.start)])
        while left:
            records = consumer.consume(min(left, _BATCH), _WAIT_S)
            left -= len(records)
            values = pa.array(list(map(Message.value, records)), pa.binary()).cast(pa.string())
            yield pa.RecordBatch.from_arrays([values], ["value"])

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: the checkpoint of the query has the offsets."""

    def _consumer(self) -> Consumer:
        key = self._servers, self._topic
        if key not in _consumers:
            settings = {"bootstrap.servers": self._servers, "group.id": "unused", "enable.auto.commit": False}
            _consumers[key] = Consumer({**settings, "log_level": 2})
        return _consumers[key]


class RecordSource(DataSource):
    """The data source ``kafka-arrow`` with the options ``servers`` and ``topic``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kafka-arrow"

    def schema(self) -> str:
        """One column of text."""
        return "value string"

    def streamReader(self, schema: Any) -> RecordReader:
        """The reader of the topic."""
        return RecordReader(self.options["servers"], self.options["topic"])


def fill(servers: str, topic: str, size: int, count: int) -> None:
    """Produce records to all partitions."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 2})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, b"x" * size, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def measure(source: str, servers: str, topic: str, size: int, count: int) -> float:
    """Run the query in this process; return the seconds from the first of many records to the last."""
    ensure_java()
    # Where Spark looks for the data source.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(RecordSource)
    counted, changed = 0, threading.Condition()

    def add(frame: DataFrame, _batch_id: int) -> None:
        nonlocal counted
        ((records, _),) = frame.selectExpr("count(*)", "sum(length(value))").collect()
        with changed:
            counted += records
            changed.notify()

    def await_count(number: int) -> None:
        with changed:
            if not changed.wait_for(lambda: counted >= number, _DEADLINE_S):
                raise TimeoutError(f"{source}: {counted} of {number} records within {_DEADLINE_S:g} s")

    with tempfile.TemporaryDirectory(prefix="penstock-blocks-", ignore_cleanup_errors=True) as folder:
        if source == "arrow":
            reader = spark.readStream.format("kafka-arrow").option("servers", servers).option("topic", topic)
        else:
            reader = (
                spark.readStream.format("penstock").option("receiver", "kafka").option("blocks", f"{folder}/blocks")
            )
            reader = reader.option("bootstrap_servers", servers).option("topics", topic).option("group_id", topic)
        fill(servers, topic, size, _FEW)
        query = reader.load().writeStream.foreachBatch(add).option("checkpointLocation", f"{folder}/checkpoint").start()
        await_count(_FEW)
        began_s = time.perf_counter()
        fill(servers, topic, size, count)
        await_count(_FEW + count)
        took_s = time.perf_counter() - began_s
        query.stop()
        spark.stop()
    return took_s


def main() -> None:
    """Print one line per size and source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    # The mock cluster keeps 5 MB per partition.
    parser.add_argument("--bytes", type=int, default=16 << 20, help="of all records of a run")
    parser.add_argument("--run", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        source, servers, topic, size, count = arguments.run
        print(json.dumps(measure(source, servers, topic, int(size), int(count))))
        return
    numbers = itertools.count()
    print("bytes  source    records/s  of the data source (median of rounds)")
    for size in _SIZES:
        count = arguments.bytes // (size + 50)
        rounds = list[dict[str, float]]()
        for _ in range(arguments.rounds):
            took_s = dict[str, float]()
            for source in _SOURCES:
                with KafkaMockServer() as server:
                    run = [source, server.bootstrap_servers, f"records-{next(numbers)}", str(size), str(count)]
                    command = [sys.executable, "-m", "benchmarks.kafka_structured", "--run", *run]
                    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                    took_s[source] = json.loads(answer.splitlines()[-1])
            rounds.append(took_s)
        for source in _SOURCES:
            took = statistics.median(each[source] for each in rounds)
            share = statistics.median(each["arrow"] / each[source] for each in rounds)
            print(f"{size:5}  {source:8}  {count / took:9,.0f}  {share:.2f}", flush=True)


if __name__ == "__main__":
    main()
