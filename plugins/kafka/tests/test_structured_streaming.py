"""The receiver as a source of Structured Streaming: a query continues after its source was killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka import Producer
from tests.helpers import wait_for

from penstock_kafka.server import KafkaMockServer

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark


def sources_running() -> list[int]:
    found = []
    for each in psutil.Process().children(recursive=True):
        # One that ends meanwhile.
        with suppress(psutil.Error):
            if "python_streaming_source_runner" in " ".join(each.cmdline()):
                found.append(each.pid)
    return found


def test_query_continues_after_its_source_was_killed(sc: SparkContext, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate().newSession()
    rows: list[Any] = []

    def start(server: KafkaMockServer) -> Any:
        options = {
            "receiver": "kafka",
            "blocks": str(tmp_path / "blocks"),
            "bootstrap_servers": server.bootstrap_servers,
            "topics": "numbers",
            "group_id": "query",
            "columns": "value,partition,offset",
            "settings": "group.protocol=consumer",
        }
        frame = spark.readStream.format("penstock").options(**options).load()
        writer = frame.writeStream.foreachBatch(lambda batch, _number: rows.extend(batch.collect()))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with KafkaMockServer() as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        producer.list_topics("numbers", timeout=30)

        def put(first: int, count: int) -> None:
            for number in range(first, first + count):
                producer.produce("numbers", str(number))
            assert producer.flush(30) == 0

        put(0, 500)
        before = set(sources_running())
        query = start(server)
        try:
            wait_for(lambda: len(rows) >= 500, "the first records are in a batch", 60)
            (source,) = set(sources_running()) - before
            os.kill(source, signal.SIGKILL)
            put(500, 500)
            with suppress(Exception):
                query.processAllAvailable()
            query.stop()
            query = start(server)
            wait_for(lambda: len({row.value for row in rows}) == 1000, "all records are in batches", 60)
        finally:
            query.stop()
    assert len({(row.partition, row.offset) for row in rows}) == 1000
