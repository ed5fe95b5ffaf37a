"""The limit of DataFrames: the works on lines as queries of a running Spark, over Arrow files as they are written.

It includes what every engine has to do: a process beside Spark receives the lines from the socket and writes them into
Arrow files, and each batch interval Spark queries the files that are new. It has no receiver task, no blocks that are
reported, allocated and deleted, no rate control and no recovery.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
from pyspark import SparkConf
from pyspark.sql import DataFrame, SparkSession

from benchmarks.programs import arrow_files, frames
from benchmarks.programs.answers import Answers
from benchmarks.programs.arrow_files import LinesFile
from benchmarks.programs.task import Batch, Result, Task, run_program

# Spark's block interval.
_FILE_S = 0.2

#: A file, and the number of a record batch in it.
Position = tuple[str, int]


def run(task: Task) -> Result:
    """Start Spark and run the task."""
    conf = SparkConf().setMaster(f"local[{task.cores}]").setAppName("benchmark").setAll(list(task.conf.items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        return run_on(spark, task)
    finally:
        spark.stop()


def run_on(spark: SparkSession, task: Task) -> Result:
    """Query the lines of each interval."""
    answers = Answers(task.work)
    # Loads what a first query loads, and starts the Python workers.
    _lines(spark, [[] for _ in range(task.cores)]).groupBy("value").count().collect()
    started_s = time.time()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as folder,
        _receiving(task, Path(folder)) as receiver,
    ):
        batches = tuple(_batches(spark, task, Path(folder), receiver, answers))
    records = sum(batch.records for batch in batches)
    return Result(batches, answers.answer(records), tuple(answers.delays_ms), started_s=started_s)


@contextmanager
def _receiving(task: Task, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    seconds = min(_FILE_S, task.interval_s / 2)
    arguments = [arrow_files.__file__, str(task.ports[0]), str(folder), str(seconds)]
    with subprocess.Popen([sys.executable, *arguments]) as receiver:
        try:
            yield receiver
        finally:
            receiver.kill()


def _batches(
    spark: SparkSession, task: Task, folder: Path, receiver: subprocess.Popen[bytes], answers: Answers
) -> Iterator[Batch]:
    due_s = time.monotonic()
    deadline_s = due_s + task.deadline_s
    num_files = records = 0
    while records < task.records:
        due_s = max(due_s + task.interval_s, time.monotonic())
        if due_s > deadline_s or receiver.poll():
            raise TimeoutError(f"{records:,} of {task.records:,} lines came within {task.deadline_s:g} s")
        time.sleep(max(due_s - time.monotonic(), 0.0))
        files = LinesFile.all_in(folder)[num_files:]
        if not files:
            continue
        began_s = time.time()
        frames.collect(frames.transformed(_lines(spark, _shares(files, task.cores)), task.work), task.work, answers)
        end_s = time.time()
        batch = Batch(sum(each.records for each in files), None, (end_s - began_s) * 1000, end_s)
        num_files, records = num_files + len(files), records + batch.records
        yield batch


def _shares(files: Sequence[LinesFile], number: int) -> list[list[Position]]:
    """As many record batches for each task, in their order."""
    positions = [(each.path, position) for each in files for position in range(each.batches)]
    bounds = [len(positions) * share // number for share in range(number + 1)]
    return [positions[first:end] for first, end in itertools.pairwise(bounds)]


def _lines(spark: SparkSession, shares: Sequence[Sequence[Position]]) -> DataFrame:
    """The lines of record batches, one share a partition."""
    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(_read(shares), "value string")


def _read(shares: Sequence[Sequence[Position]]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for path, positions in itertools.groupby(shares[number], itemgetter(0)):
                with pa.memory_map(path) as source:
                    reader = pa.ipc.open_file(source)
                    yield from (reader.get_batch(position) for _path, position in positions)

    return read


if __name__ == "__main__":
    run_program(run)
