"""The limits of rows, DataFrames and Arrow: jobs over Arrow files of lines, as these are written.

It includes what every engine has to do: a process beside Spark receives the lines from the socket and writes them into
Arrow files, and each batch interval Spark reads the files that are new. It has no receiver task, no blocks that are
reported, allocated and deleted, no rate control and no recovery.

Rows are processed by plain PySpark: loops over the lines of a partition, which call the functions that the DStream
programs have. DataFrames are processed by queries. Arrow's kernels run in a loop, in processes of their own and
without Spark.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from operator import add
from pathlib import Path

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import PATTERN
from benchmarks.programs import frames, kernels
from benchmarks.programs.answers import Answers
from benchmarks.programs.arrow_files import LinesFile, Position, record_batches, split_evenly, start_receiver
from benchmarks.programs.task import Batch, Result, Task, run_program

#: Runs the job of a batch: the record batches of each partition are given.
Job = Callable[[Sequence[list[Position]]], None]


def run(task: Task) -> Result:
    """Start Spark, or processes for Arrow's kernels, and run the task."""
    if task.api == "arrow":
        with ProcessPoolExecutor(task.cores, multiprocessing.get_context("spawn")) as pool:
            answers = Answers(task.work)
            return _run_jobs(task, answers, _job_on_columns(pool, task, answers))
    conf = SparkConf().setMaster(f"local[{task.cores}]").setAppName("benchmark").setAll(list(task.conf.items()))
    sc = SparkContext(conf=conf)
    try:
        sc.setLogLevel("ERROR")
        return run_on(sc, task)
    finally:
        sc.stop()


def run_on(sc: SparkContext, task: Task) -> Result:
    """Run a job for the lines of each interval."""
    answers = Answers(task.work)
    return _run_jobs(task, answers, (_job_on_rows if task.api == "rows" else _job_on_frames)(sc, task, answers))


def _run_jobs(task: Task, answers: Answers, run_job: Job) -> Result:
    started_s = time.time()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as folder,
        _receiving(task, Path(folder)) as receiver,
    ):
        batches = tuple(_batches(task, Path(folder), receiver, run_job))
    records = sum(batch.records for batch in batches)
    return Result(batches, answers.answer(records), tuple(answers.delays_ms), started_s=started_s)


@contextmanager
def _receiving(task: Task, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with start_receiver(task.ports[0], str(folder), task.interval_s) as receiver:
        try:
            yield receiver
        finally:
            receiver.kill()


def _batches(task: Task, folder: Path, receiver: subprocess.Popen[bytes], run_job: Job) -> Iterator[Batch]:
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
        run_job(split_evenly(files, task.cores))
        end_s = time.time()
        batch = Batch(sum(file.records for file in files), None, (end_s - began_s) * 1000, end_s)
        num_files, records = num_files + len(files), records + batch.records
        yield batch


def _job_on_rows(sc: SparkContext, task: Task, answers: Answers) -> Job:
    def count_words(shares: Sequence[list[Position]]) -> list[tuple[str, int]]:
        counts = sc.parallelize(shares, len(shares)).mapPartitions(_counted)
        return counts.reduceByKey(add, len(shares)).collect()

    def run_job(shares: Sequence[list[Position]]) -> None:
        if task.work == "wordcount":
            answers.add_words(count_words(shares))
        else:
            count = {"count": _number, "grep": _number_of_matches}[task.work]
            answers.add_number(sum(sc.parallelize(shares, len(shares)).mapPartitions(count).collect()))

    count_words([[] for _ in range(task.cores)])  # starts the Python workers
    return run_job


def _number(shares: Iterable[list[Position]]) -> Iterator[int]:
    """The number of lines; as in Penstock, they do not become Python objects."""
    yield sum(batch.num_rows for share in shares for batch in record_batches(share))


def _number_of_matches(shares: Iterable[list[Position]]) -> Iterator[int]:
    yield sum(sum(map(_has_pattern, lines)) for lines in _lists_of_lines(shares))


def _counted(shares: Iterable[list[Position]]) -> Iterable[tuple[str, int]]:
    counts: dict[str, int] = {}
    for lines in _lists_of_lines(shares):
        for line in lines:
            for element in _words(line):
                word, number = _pair(element)
                so_far = counts.get(word)
                counts[word] = number if so_far is None else add(so_far, number)
    return counts.items()


def _lists_of_lines(shares: Iterable[list[Position]]) -> Iterator[list[str]]:
    return (batch.column(0).to_pylist() for share in shares for batch in record_batches(share))


def _has_pattern(line: str) -> bool:
    return PATTERN in line


def _words(line: str) -> list[str]:
    return line.split(" ")


def _pair(word: str) -> tuple[str, int]:
    return word, 1


def _job_on_columns(pool: ProcessPoolExecutor, task: Task, answers: Answers) -> Job:
    def run_job(shares: Sequence[list[Position]]) -> None:
        total = Counter[str]()
        for counts in pool.map(kernels.counted, shares):
            total.update(dict(counts))
        answers.add_words(total.items())

    run_job([[] for _ in range(task.cores)])  # starts the processes
    return run_job


def _job_on_frames(_sc: SparkContext, task: Task, answers: Answers) -> Job:
    spark = SparkSession.builder.getOrCreate()

    def run_job(shares: Sequence[list[Position]]) -> None:
        frames.collect(frames.transformed(_lines(spark, shares), task.work), task.work, answers)

    # Loads what a first query loads, and starts the Python workers.
    _lines(spark, [[] for _ in range(task.cores)]).groupBy("value").count().collect()
    return run_job


def _lines(spark: SparkSession, shares: Sequence[list[Position]]) -> DataFrame:
    """The lines of record batches, one share a partition."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            yield from record_batches(shares[number])

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(read, "value string")


if __name__ == "__main__":
    run_program(run)
