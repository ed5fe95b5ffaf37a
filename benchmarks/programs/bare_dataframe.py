"""The limit of DataFrames: the works on lines as one query of a running Spark, over Arrow files written beforehand."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import SparkConf
from pyspark.sql import DataFrame, SparkSession

from benchmarks.programs import frames
from benchmarks.programs.answers import Answers
from benchmarks.programs.task import Batch, Result, Task, run_program

_READ_BYTES = 1 << 20
# As in Penstock's blocks.
_ROWS_PER_BATCH = 16_384


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
    """Write the lines into files and query them; those of the warm-up in a query of their own."""
    answers = Answers(task.work)
    with tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as folder:
        groups = _written(task, Path(folder))
        started_s = time.time()
        # Loads what a first query loads, and starts the Python workers.
        _lines(spark, [""] * task.cores).groupBy("value").count().collect()
        batches = [_query(spark, task, paths, records, answers) for records, paths in groups]
    began_s = batches[-1].end_s - batches[-1].processing_ms / 1000
    return Result(tuple(batches), answers.answer(task.records), started_s=started_s, began_s=began_s)


def _written(task: Task, folder: Path) -> list[tuple[int, list[str]]]:
    """The number of lines and the files of each query, one file a slot.

    Raises:
        ConnectionError: there are fewer lines than the task says.
    """
    with socket.create_connection(("127.0.0.1", task.ports[0]), timeout=task.deadline_s) as connection:
        parts: list[bytes] = []
        missing = task.records
        while missing:
            if not (data := connection.recv(_READ_BYTES)):
                raise ConnectionError(f"the sender closed the connection, {missing:,} lines are missing")
            parts.append(data)
            missing -= parts[-1].count(b"\n")
    lines = b"".join(parts).decode().split("\n")[: task.records]
    del parts
    groups = []
    for name, first, last in (("warm-up", 0, task.warm_up), ("all", task.warm_up, task.records)):
        bounds = [first + (last - first) * slot // task.cores for slot in range(task.cores + 1)]
        paths = [str(folder / f"{name}-{slot}") for slot in range(task.cores)]
        for path, begin, end in zip(paths, bounds, bounds[1:], strict=False):
            table = pa.table({"value": lines[begin:end]})
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=_ROWS_PER_BATCH)
        if first < last:
            groups.append((last - first, paths))
    return groups


def _query(spark: SparkSession, task: Task, paths: Sequence[str], records: int, answers: Answers) -> Batch:
    began_s = time.time()
    frames.collect(frames.transformed(_lines(spark, paths), task.work), task.work, answers)
    end_s = time.time()
    return Batch(records, None, (end_s - began_s) * 1000, end_s)


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of files, one file a partition; none of an empty path."""
    return spark.range(0, len(paths), 1, len(paths)).mapInArrow(_read(paths), "value string")


def _read(paths: Sequence[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path in (paths[number] for batch in batches for number in batch.column(0).to_pylist()):
            if path:
                with pa.memory_map(path) as source:
                    reader = pa.ipc.open_file(source)
                    yield from map(reader.get_batch, range(reader.num_record_batches))

    return read


if __name__ == "__main__":
    run_program(run)
