"""The limits: the same work without streaming, as a loop in one Python process or as jobs of a running Spark."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from operator import add
from typing import Any

from benchmarks.data import PATTERN
from benchmarks.programs.answers import Answers
from benchmarks.programs.task import Batch, Result, Task, run_program

_READ_BYTES = 1 << 18


def run_loop(task: Task) -> Result:
    """Read and process lines in a loop, a chunk at a time.

    Raises:
        TimeoutError: the lines did not arrive within the deadline.
    """
    answers = Answers(task.work)
    records, rest, words = 0, b"", Counter[str]()
    began_s = time.time()
    with socket.create_connection(("127.0.0.1", task.ports[0]), timeout=task.deadline_s) as connection:
        while records < task.records:
            whole, _newline, rest = (rest + connection.recv(_READ_BYTES)).rpartition(b"\n")
            if not whole:
                continue
            lines = whole.decode().split("\n")
            records += len(lines)
            if task.work == "count":
                answers.add_number(len(lines))
            elif task.work == "grep":
                answers.add_number(sum(PATTERN in line for line in lines))
            elif task.work == "wordcount":
                for line in lines:
                    words.update(line.split(" "))
    answers.add_words(words.items())
    end_s = time.time()
    batch = Batch(records, None, (end_s - began_s) * 1000, end_s)
    return Result((batch,), answers.answer(records), tuple(answers.delays_ms))


def run_jobs(task: Task) -> Result:
    """Run a Spark job of one stage for the lines of each interval, which this process reads beside it."""
    from pyspark import SparkConf, SparkContext

    answers = Answers(task.work)
    arrived: list[str] = []
    conf = SparkConf().setMaster(f"local[{task.cores}]").setAppName("benchmark").setAll(list(task.conf.items()))
    sc = SparkContext(conf=conf)
    try:
        sc.setLogLevel("ERROR")
        sc.parallelize(range(2), 2).map(lambda number: number).count()
        with socket.create_connection(("127.0.0.1", task.ports[0])) as connection:
            reader = threading.Thread(target=_receive, args=(connection, arrived), daemon=True)
            reader.start()
            batches = _jobs(sc, task, arrived, answers)
    finally:
        sc.stop()
    return Result(tuple(batches), answers.answer(sum(batch.records for batch in batches)), tuple(answers.delays_ms))


def _jobs(sc: Any, task: Task, arrived: list[str], answers: Answers) -> list[Batch]:
    batches: list[Batch] = []
    first = 0
    due = time.monotonic()
    deadline = due + task.deadline_s
    while first < task.records if task.records else len(batches) < task.batches:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{task.work} did not end within {task.deadline_s:g} s")
        due += task.interval_s
        time.sleep(max(due - time.monotonic(), 0.0))
        scheduling_ms = (time.monotonic() - due) * 1000
        lines = arrived[first:]
        first += len(lines)
        began_s = time.time()
        rdd = sc.parallelize(lines, 1)
        answers.add_words(rdd.mapPartitions(_counted).collect())
        end_s = time.time()
        batches.append(Batch(len(lines), scheduling_ms, (end_s - began_s) * 1000, end_s))
    return batches


def _receive(connection: socket.socket, arrived: list[str]) -> None:
    rest = b""
    while data := connection.recv(_READ_BYTES):
        whole, _newline, rest = (rest + data).rpartition(b"\n")
        if whole:
            arrived.extend(whole.decode().split("\n"))


def _counted(lines: Any) -> Any:
    counts: dict[str, int] = {}
    for line in lines:
        for word in line.split(" "):
            counts[word] = add(counts.get(word, 0), 1)
    return counts.items()


def run(task: Task) -> Result:
    """Run the task with what it names as its library."""
    return run_jobs(task) if task.library == "pyspark" else run_loop(task)


if __name__ == "__main__":
    run_program(run)
