"""The works on lines in Structured Streaming: with Python data sources, Penstock's, or Spark's own socket source."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pyspark import SparkConf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.listener import StreamingQueryListener

from benchmarks.programs import frames
from benchmarks.programs.answers import Answers
from benchmarks.programs.arrow_source import ArrowSource
from benchmarks.programs.lines_in_memory import MemorySource
from benchmarks.programs.task import Batch, Result, Task, run_program

_READ_BYTES = 1 << 20


class LineReader(SimpleDataSourceStreamReader):
    """Reads lines from a socket on a thread of its own, which starts with the first batch.

    The reader is pickled before that. Offsets are numbers of lines. Spark reads lines here and sends them to its tasks.

    Args:
        port: of 127.0.0.1, where the lines are.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._first = 0
        self._lines: list[str] | None = None

    def initialOffset(self) -> dict[str, int]:
        """The first line."""
        return {"line": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[str]], dict[str, int]]:
        """All lines that have arrived since."""
        if self._lines is None:
            self._lines = []
            threading.Thread(target=self._receive, args=(self._lines,), daemon=True).start()
        end = {"line": self._first + len(self._lines)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[str]]:
        """Lines that have arrived."""
        lines = self._lines or []
        return iter([(line,) for line in lines[start["line"] - self._first : end["line"] - self._first]])

    def commit(self, end: dict[str, int]) -> None:
        """Forget lines that are processed."""
        if self._lines is not None:
            # One step for the thread that receives.
            del self._lines[: end["line"] - self._first]
            self._first = end["line"]

    def _receive(self, lines: list[str]) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            rest = b""
            while data := connection.recv(_READ_BYTES):
                whole, _newline, rest = (rest + data).rpartition(b"\n")
                if whole:
                    lines.extend(whole.decode().split("\n"))


class LineSource(DataSource):
    """The data source ``lines`` with the option ``port``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "lines"

    def schema(self) -> str:
        """One column of text."""
        return "value string"

    def simpleStreamReader(self, schema: Any) -> LineReader:
        """The reader of the port."""
        return LineReader(int(self.options["port"]))


class Batches(StreamingQueryListener):
    """The batches that had records, as the query reports them.

    They have no scheduling delay: a trigger starts when the one before has ended.

    Args:
        records: after which it is done.
    """

    def __init__(self, records: int) -> None:
        self._remaining = records
        self.all: list[Batch] = []
        self.done = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to note."""

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to note."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to note."""

    def onQueryProgress(self, event: Any) -> None:
        """Note a batch."""
        progress = event.progress
        if progress.numInputRows:
            took_ms = float(progress.durationMs["triggerExecution"])
            started_s = datetime.fromisoformat(progress.timestamp).timestamp()
            self.all.append(Batch(int(progress.numInputRows), None, took_ms, started_s + took_ms / 1000))
            self._remaining -= int(progress.numInputRows)
            if self._remaining <= 0:
                self.done.set()


def run(task: Task) -> Result:
    """Start Spark and run the task.

    Raises:
        TimeoutError: the task did not end within its deadline.
    """
    conf = SparkConf().setMaster(f"local[{task.cores}]").setAppName("benchmark").setAll(list(task.conf.items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.range(1000).selectExpr("id % 7 AS k").groupBy("k").count().collect()  # loads what a first query loads
    (port,) = task.ports
    if task.source == "python":
        spark.dataSource.register(LineSource)
        lines = spark.readStream.format("lines").option("port", port).load()
    elif task.source == "arrow":
        spark.dataSource.register(ArrowSource)
        # Removed when the program ends, which is after the query.
        folder = tempfile.TemporaryDirectory(prefix="penstock-benchmark-", ignore_cleanup_errors=True)
        source = spark.readStream.format("arrow-lines").option("port", port).option("folder", folder.name)
        lines = source.option("cores", task.cores).option("interval", task.interval_s).load()
    elif task.source == "memory":
        spark.dataSource.register(MemorySource)
        lines = spark.readStream.format("memory-lines").option("port", port).option("seed", task.seed).load()
    elif task.source == "penstock":
        # Removed when the program ends, which is after the query.
        folder = tempfile.TemporaryDirectory(prefix="penstock-blocks-", ignore_cleanup_errors=True)
        source = spark.readStream.format("penstock").option("receiver", "socket").option("host", "127.0.0.1")
        lines = source.option("port", port).option("blocks", folder.name).load()
    else:
        lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    answers = Answers(task.work)

    def process(frame: DataFrame, _batch_id: int) -> None:
        frames.collect(frames.transformed(frame, task.work), task.work, answers)

    batches = Batches(task.records)
    spark.streams.addListener(batches)
    started_s = time.time()
    query = lines.writeStream.foreachBatch(process).trigger(processingTime=f"{task.interval_s} seconds").start()
    try:
        deadline = time.monotonic() + task.deadline_s
        while not batches.done.wait(0.02):
            if not query.isActive:
                raise RuntimeError(f"the query ended before its last batch: {query.exception()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{task.work} did not end within {task.deadline_s:g} s")
        ran = tuple(batches.all)
        answer = answers.answer(sum(batch.records for batch in ran))
        return Result(ran, answer, tuple(answers.delays_ms), started_s=started_s)
    finally:
        query.stop()
        spark.stop()


if __name__ == "__main__":
    run_program(run)
