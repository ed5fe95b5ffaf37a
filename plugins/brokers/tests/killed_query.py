"""A query of Structured Streaming whose source is killed, for tests of receivers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from tests.helpers import wait_for

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_BEFORE, _ALL = 100, 300


def rows_of_killed_query(
    options: Mapping[str, str],
    schema: str,
    folder: Path,
    send: Callable[[Sequence[str]], object],
    is_settled: Callable[[], bool] = lambda: True,
) -> list[Any]:
    """Run a query until its source has 100 messages and is killed; run it again until it has 300; return its rows.

    Args:
        options: those of the source: the receiver and its options.
        schema: has the column ``value``.
        folder: of blocks and checkpoint.
        send: sends messages, which are consecutive numbers.
        is_settled: whether the broker knows in the end what is stored; the query runs until it does.
    """
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate().newSession()
    frame = spark.readStream.format("penstock").schema(schema).options(blocks=str(folder / "blocks"), **options).load()
    batches: dict[int, list[Any]] = {}

    def start() -> StreamingQuery:
        writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        # A batch that runs again replaces the earlier one.
        return writer.foreachBatch(lambda rows, number: batches.__setitem__(number, rows.collect())).start()

    def has(count: int) -> bool:
        values = {row.value for rows in list(batches.values()) for row in rows}
        return values == set(map(str, range(count)))

    query = start()
    send([str(number) for number in range(_BEFORE)])
    wait_for(lambda: has(_BEFORE), "the first messages")
    for process in source_processes():
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: not query.isActive, "the query has failed")
    again = start()
    try:
        send([str(number) for number in range(_BEFORE, _ALL)])
        wait_for(lambda: has(_ALL), "all messages")
        wait_for(is_settled, "the broker knows what is stored")
    finally:
        again.stop()
    return [row for number in sorted(batches) for row in batches[number]]


def source_processes() -> list[int]:
    """The processes in which Spark keeps sources."""
    found = []
    for process in psutil.Process().children(recursive=True):
        # Processes end meanwhile.
        with suppress(psutil.Error):
            if "python_streaming_source_runner" in " ".join(process.cmdline()):
                found.append(process.pid)
    assert found
    return found
