"""The receiver ``rabbitmq`` in Structured Streaming: a query whose source is killed resumes, and loses nothing."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.helpers import wait_for

from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery


def source_processes() -> list[int]:
    found = []
    for process in psutil.Process().children(recursive=True):
        # One that ends meanwhile.
        with suppress(psutil.Error):
            if "python_streaming_source_runner" in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


@pytest.mark.spark
def test_query_whose_source_is_killed_resumes_and_gets_every_message(
    sc: SparkContext, broker: RabbitServer, publisher: QueuePublisher, queue: str, tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate().newSession()
    publisher.publish(queue, [b"%d" % number for number in range(100)])
    reader = spark.readStream.format("penstock").schema("value STRING, routing_key STRING")
    options = {"receiver": "rabbitmq", "host": "127.0.0.1", "port": str(broker.port), "queue": queue}
    frame = reader.options(
        blocks=str(tmp_path / "blocks"), columns="value,routing_key", value_as="text", **options
    ).load()
    batches: dict[int, list[Any]] = {}

    def start() -> StreamingQuery:
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        # A batch that runs again replaces the earlier one.
        return writer.foreachBatch(lambda rows, number: batches.__setitem__(number, rows.collect())).start()

    def values() -> set[str]:
        return {row.value for rows in list(batches.values()) for row in rows}

    query = start()
    wait_for(lambda: len(values()) == 100, "the first messages")
    for process in source_processes():
        os.kill(process, signal.SIGKILL)
    publisher.publish(queue, [b"%d" % number for number in range(100, 300)])
    wait_for(lambda: not query.isActive, "the query has failed")
    again = start()
    try:
        wait_for(lambda: values() == set(map(str, range(300))), "all messages")
    finally:
        again.stop()
