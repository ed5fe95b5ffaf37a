"""The receiver as a source of Structured Streaming: a kill of its process loses no entry."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from tests.helpers import wait_for

if TYPE_CHECKING:
    from plugins.redis.tests.conftest import Stream
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


def source_process() -> int:
    """The process in which Spark keeps the source."""
    found = list[int]()
    for process in psutil.Process().children(recursive=True):
        # Processes end meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            if "python_streaming_source_runner" in " ".join(process.cmdline()):
                found.append(process.pid)
    (pid,) = found
    return pid


def test_a_killed_source_loses_no_entry(sc: SparkContext, stream: Stream, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    spark, rows = SparkSession.builder.getOrCreate(), list[Any]()

    def start() -> StreamingQuery:
        reader = spark.readStream.format("penstock").schema("id STRING, value STRING")
        options = {
            "receiver": "redis",
            "blocks": str(tmp_path / "blocks"),
            "host": "127.0.0.1",
            "port": str(stream.server.port),
            "streams": stream.name,
            "columns": "id,value",
            # The consumer of a killed query is another one.
            "min_idle": "0.5",
        }
        writer = reader.options(**options).load().writeStream
        collecting = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        return collecting.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def has_all(query: StreamingQuery, ids: list[bytes]) -> bool:
        return query.exception() is not None or {row.id.encode() for row in rows} >= set(ids)

    query = start()
    ids = stream.add(*map(str, range(100)))
    wait_for(lambda: has_all(query, ids), "the first entries")
    assert query.exception() is None
    os.kill(source_process(), signal.SIGKILL)
    ids += stream.add(*map(str, range(100, 200)))
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(120)
    query = start()
    try:
        wait_for(lambda: has_all(query, ids), "all entries")
        assert query.exception() is None
        wait_for(lambda: not stream.pending(), "all acknowledgements")
        assert {int(row.value) for row in rows} == set(range(200))
    finally:
        query.stop()
