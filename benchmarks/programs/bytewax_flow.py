"""The works on lines in Bytewax, one worker: lines arrive in chunks; counts come out at the end or every interval."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from benchmarks.data import PATTERN
from benchmarks.programs.answers import Answers
from benchmarks.programs.task import Batch, NotAvailableError, Result, Task, run_program

_READ_BYTES = 1 << 18
_IDLE = timedelta(milliseconds=1)


class LinePartition(StatelessSourcePartition[str]):
    """Reads lines from a socket until it has had all of them.

    Args:
        port: of 127.0.0.1, where the lines are.
        records: how many there will be.
        deadline_s: after which it gives up.
    """

    def __init__(self, port: int, records: int, deadline_s: float) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setblocking(False)
        self._rest = b""
        self._remaining = records
        self._deadline = time.monotonic() + deadline_s
        self._is_idle = False

    def next_batch(self) -> list[str]:
        """The lines that have arrived."""
        if not self._remaining:
            raise StopIteration
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"{self._remaining} lines did not arrive in time")
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            self._is_idle = True
            return []
        self._is_idle = False
        whole, _newline, self._rest = (self._rest + data).rpartition(b"\n")
        lines = whole.decode().split("\n") if whole else []
        self._remaining -= len(lines)
        return lines

    def next_awake(self) -> datetime | None:
        """At once while there is data."""
        return datetime.now(timezone.utc) + _IDLE if self._is_idle else None  # noqa: UP017  # Bytewax compares with it

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class LineSource(DynamicSource[str]):
    """The lines of a task; its first worker reads them."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def build(self, step_id: str, worker_index: int, worker_count: int) -> LinePartition:
        """The one partition."""
        return LinePartition(self._task.ports[0], self._task.records, self._task.deadline_s)


class CallPartition(StatelessSinkPartition[Any]):
    """Passes every item to a function."""

    def __init__(self, take: Any) -> None:
        self._take = take

    def write_batch(self, items: list[Any]) -> None:
        """Call the function with the items."""
        self._take(items)


class CallSink(DynamicSink[Any]):
    """Passes every item to a function."""

    def __init__(self, take: Any) -> None:
        self._take = take

    def build(self, step_id: str, worker_index: int, worker_count: int) -> CallPartition:
        """The one partition."""
        return CallPartition(self._take)


def run(task: Task) -> Result:
    """Run the task.

    Raises:
        NotAvailableError: the work has no batches here, or none that are like those of the others.
    """
    if task.work not in ("receive", "count", "grep", "wordcount"):
        raise NotAvailableError(f"no Bytewax program for {task.work}")
    if task.is_paced:
        raise NotAvailableError("its operator collect restarts the interval with each item")
    answers = Answers(task.work)
    began_s = time.time()
    flow = Dataflow("benchmark")
    stream: Any = op.input("lines", flow, LineSource(task))
    if task.work == "wordcount":
        words = op.flat_map("words", stream, lambda line: line.split(" "))
        counts = op.count_final("count", words, lambda word: word)
        op.output("out", counts, CallSink(answers.add_words))
    else:
        if task.work == "grep":
            stream = op.filter("grep", stream, lambda line: PATTERN in line)
        op.output("out", stream, CallSink(lambda items: answers.add_number(len(items))))
    run_main(flow)  # type: ignore[no-untyped-call]  # compiled
    took_s = time.time() - began_s
    batch = Batch(task.records, None, took_s * 1000, time.time())
    return Result((batch,), answers.answer(task.records), tuple(answers.delays_ms))


if __name__ == "__main__":
    os.environ.setdefault("BYTEWAX_LOG", "error")
    run_program(run)
