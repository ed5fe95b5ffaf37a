"""Receivers as sources of streaming queries: rows reach the sink, errors name what is wrong, a stop leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from tests.helpers import wait_for
from tests.helpers.frame_programs import frugal_plans

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "structured-streaming.md"
LINES = [f"line {number}" for number in range(1000)]


@pytest.fixture(scope="module")
def spark(sc: SparkContext) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    # Its views and configuration concern no other test.
    session = SparkSession.builder.getOrCreate().newSession()
    with frugal_plans(session):
        yield session


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server that sends the lines to each that connects, and keeps the connection open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted = []

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                accepted.append(peer)
                peer.sendall("".join(f"{line}\n" for line in LINES).encode())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        for peer in accepted:
            peer.close()


def source(spark: SparkSession, blocks: Path, receiver: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("penstock").option("receiver", receiver).option("blocks", str(blocks))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def sources_running() -> list[int]:
    """The processes in which Spark keeps sources."""
    found = []
    for each in psutil.Process().children(recursive=True):
        # One that ends meanwhile.
        with suppress(psutil.Error):
            if "python_streaming_source_runner" in " ".join(each.cmdline()):
                found.append(each.pid)
    return found


def collected(frame: DataFrame, checkpoint: Path, **trigger: Any) -> tuple[StreamingQuery, list[Any]]:
    """Start a query whose rows are collected."""
    rows: list[Any] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _batch_id: rows.extend(batch.collect()))
    writer = writer.trigger(**trigger) if trigger else writer
    return writer.option("checkpointLocation", str(checkpoint)).start(), rows


def test_the_program_of_the_page_counts_words_each_second_and_after_a_stop_nothing_runs(
    spark: SparkSession, port: int, tmp_path: Path
) -> None:
    (program, steering) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for old, new in {
        "SparkSession.builder.getOrCreate()": "session",
        "9999": str(port),
        "/var/lib/penstock/query-1": str(tmp_path / "blocks"),
        "/var/lib/q1": str(tmp_path / "checkpoint"),
        'format("console")': 'format("memory").queryName("counts")',
        "query.awaitTermination()\n": "",
    }.items():
        assert old in program
        program = program.replace(old, new)
    names: dict[str, Any] = {"session": spark}
    exec(program + steering, names)
    query = names["query"]
    try:
        lines = "SELECT count FROM counts WHERE word = 'line'"

        def is_counted() -> bool:
            return [row[0] for row in spark.sql(lines).collect()] == [len(LINES)]

        # Each look is a job.
        wait_for(lambda: query.exception() or is_counted(), "counts", poll_s=0.2)
        assert query.exception() is None
        wait_for(lambda: names["steering"].rates, "a rate")
        assert (tmp_path / "blocks" / "rate").exists()
        assert names["lines"].dtypes == [("value", "string")]
        assert len(sources_running()) == 1
    finally:
        query.stop()
        spark.streams.removeListener(names["steering"])
    wait_for(lambda: not sources_running(), "the end of the source's process")


def test_a_killed_source_process_fails_the_query(spark: SparkSession, port: int, tmp_path: Path) -> None:
    lines = source(spark, tmp_path / "blocks", "socket", host="127.0.0.1", port=port)
    query, rows = collected(lines, tmp_path / "checkpoint")
    try:
        wait_for(lambda: query.exception() or len(rows) == len(LINES), "the lines")
        (process,) = sources_running()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(120)
    finally:
        query.stop()
    assert not sources_running()


def test_available_now_ends_by_itself_and_the_next_run_continues(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nb\n")
    options = {"path": str(tmp_path / "log"), "offset_file": str(tmp_path / "offsets"), "quietPeriod": 3}
    for expected in (["a", "b"], []):
        lines = source(spark, tmp_path / "blocks", "file", **options)
        query, rows = collected(lines, tmp_path / "checkpoint", availableNow=True)
        assert query.awaitTermination(120)
        assert [row.value for row in rows] == expected


def test_a_wrong_option_is_refused_when_the_source_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"unknown receiver 'sockt'. Did you mean 'socket'\?"):
        source(spark, tmp_path / "blocks", "sockt")
