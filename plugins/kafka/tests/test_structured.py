"""The receiver ``kafka`` in Structured Streaming: a query whose source is killed resumes, and loses nothing."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from plugins.kafka.tests.conftest import Topic
from tests.helpers import wait_for

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
def test_query_whose_source_is_killed_resumes_and_gets_every_record(
    sc: SparkContext, topic: Topic, tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate().newSession()
    topic.put(*map(str, range(100)))
    reader = spark.readStream.format("penstock").schema("value STRING, offset LONG")
    options = {
        "receiver": "kafka",
        "bootstrap_servers": topic.cluster.bootstrap_servers,
        "topics": topic.name,
        "group_id": topic.group,
        "columns": "value,offset",
        # The group waits this long for a member that was killed.
        "settings": "session.timeout.ms=6000,heartbeat.interval.ms=500,reconnect.backoff.max.ms=100",
    }
    frame = reader.options(blocks=str(tmp_path / "blocks"), **options).load()
    batches: dict[int, list[Any]] = {}

    def start() -> StreamingQuery:
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        # A batch that runs again replaces the earlier one.
        return writer.foreachBatch(lambda rows, number: batches.__setitem__(number, rows.collect())).start()

    def values() -> set[str]:
        return {row.value for rows in list(batches.values()) for row in rows}

    query = start()
    wait_for(lambda: len(values()) == 100, "the first records")
    for process in source_processes():
        os.kill(process, signal.SIGKILL)
    topic.put(*map(str, range(100, 300)))
    wait_for(lambda: not query.isActive, "the query has failed")
    again = start()
    try:
        wait_for(lambda: values() == set(map(str, range(300))), "all records")
        assert all(int(row.value) == row.offset for rows in batches.values() for row in rows)
        wait_for(lambda: topic.committed() == 300, "all records are committed")
    finally:
        again.stop()
