"""Runs that are interrupted and recovered, on the shared SparkContext, under a manual clock.

A run is interrupted by copying its checkpoint directory: a run killed at that moment would leave the same files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen
from pyspark import RDD, SparkContext
from tests.helpers.functions import engine_of, graph_of

from penstock import DStream, StreamingContext
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.input_dstreams import InputDStream
from penstock.listen.events import BatchCompleted, StreamInputInfo
from penstock_testing import ManualClock

INTERVAL_MS = 1000


class Numbered(InputDStream):
    """A recoverable source: the records of a batch follow from its number. The first batch has number 1."""

    def __init__(self, graph: DStreamGraph, batches: Callable[[int], list[Any]]) -> None:
        super().__init__(graph)
        self._batches = batches

    def compute(self, time_ms: int) -> RDD[Any]:
        """The records of a time."""
        assert self._zero_time_ms is not None
        records = self._batches((time_ms - self._zero_time_ms) // INTERVAL_MS)
        self.graph.runtime.report_input(time_ms, StreamInputInfo(self.id, len(records)), None)
        return self._sc.parallelize(records, 1)


def numbered(context: StreamingContext, batches: Callable[[int], list[Any]]) -> DStream[Any]:
    """A stream of a Numbered source."""
    return DStream(Numbered(graph_of(context), batches), context)


class Completed:
    """A listener that records completed batches."""

    never_drop = True

    def __init__(self) -> None:
        self.times: list[int] = []
        self.records: dict[int, int] = {}
        self._changed = threading.Condition()

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        info = batchCompleted.batchInfo
        with self._changed:
            self.times.append(info.batchTime)
            self.records[info.batchTime] = info.numRecords
            self._changed.notify_all()

    def await_time(self, time_ms: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: time_ms in self.times, 60):
                raise TimeoutError(f"batch {time_ms} is not complete; complete are {self.times}")

    def await_count(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.times) >= count, 60):
                raise TimeoutError(f"{count} batches are not complete; complete are {self.times}")


def stop_while_it_ticks(timer: Any, clock: ManualClock, stop: Callable[[], object]) -> None:
    """Stop gracefully: the clock has to advance for the two ticks that the timer still makes."""
    stop_requested, timer_stop = threading.Event(), timer.stop

    def announce(**how: Any) -> Any:
        # Holds the race open: the timer sees the request before its next tick.
        timer._stopped = True
        stop_requested.set()
        return timer_stop(**how)

    timer.stop = announce
    stopping = threading.Thread(target=stop)
    stopping.start()
    assert stop_requested.wait(30)
    clock.advance(2 * INTERVAL_MS)
    stopping.join(60)
    assert not stopping.is_alive()


class Run:
    """One run of a program, started fresh or from a checkpoint."""

    def __init__(self, context: StreamingContext, clock: ManualClock) -> None:
        self.context = context
        self._clock = clock
        self.completed = Completed()
        context.addStreamingListener(self.completed)

    def start(self) -> Run:
        self.context.start()
        return self

    def batches(self, count: int) -> None:
        """Run this many batches, one after the other."""
        for _ in range(count):
            self._clock.await_waiters()
            self._clock.advance(INTERVAL_MS)
            self.completed.await_time(self._clock.now_ms())

    def stop(self) -> None:
        self.context.stop(stopSparkContext=False)

    def stop_gracefully(self) -> None:
        generator = engine_of(self.context).generator
        assert generator is not None
        stop_while_it_ticks(
            # Its stop is delayed, to hold the race open.
            generator._timer,
            self._clock,
            lambda: self.context.stop(stopSparkContext=False, stopGracefully=True),
        )


def _copy_if_there(source: str, target: str) -> None:
    # A file that is deleted meanwhile is no longer needed.
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


@frozen
class Hold:
    """An output that waits while a named pipe exists, until somebody has opened and closed it."""

    path: Path

    def __call__(self, *_batch: object) -> None:
        if self.path.exists():
            self.path.read_bytes()


class Runs:
    """The runs of a program."""

    def __init__(self, sc: SparkContext, folder: Path, conf: Callable[..., None]) -> None:
        self._sc = sc
        self._folder = folder
        self.configure = conf
        self.directory = folder / "first"
        self.clock = ManualClock(0)
        self.created = 0
        self._made: list[Run] = []

    def new(self, build: Callable[[StreamingContext], object], directory: Path | None = None) -> Run:
        """Create a run with ``getOrCreate``: it recovers from a checkpoint if there is one."""
        clock, sc = self.clock, self._sc

        class Context(StreamingContext):
            def __init__(self, sparkContext: SparkContext, batchDuration: float) -> None:
                super().__init__(sparkContext, batchDuration, clock=clock)

        def create() -> StreamingContext:
            self.created += 1
            made = Context(sc, INTERVAL_MS / 1000)
            build(made)
            return made

        self._made.append(Run(Context.getOrCreate(str(directory or self.directory), create), clock))
        return self._made[-1]

    def interrupt(self, name: str = "copy") -> Path:
        """Copy the files that a run killed now would leave."""
        copy = self._folder / name
        shutil.copytree(self.directory, copy, copy_function=_copy_if_there)
        return copy

    def interrupt_at(self, hold: Hold) -> Path:
        """Copy them while the next batch runs and waits at a hold."""
        os.mkfifo(hold.path)
        self.clock.await_waiters()
        self.clock.advance(INTERVAL_MS)
        # Returns when the output has opened the pipe.
        with hold.path.open("wb"):
            left = self.interrupt()
            hold.path.unlink()
        return left

    def stop(self) -> None:
        for run in self._made:
            run.stop()


@frozen
class Write:
    """An output that appends each batch to a file, because a recovered run has copies of the program's functions."""

    path: Path

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([round(time.timestamp() * 1000), sorted(rdd.collect(), key=repr)]) + "\n")


class Output:
    """The records of each batch by its number; the last ones if a batch was written twice."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def collect(self, stream: DStream[Any]) -> None:
        stream.foreachRDD(Write(self._path))

    def forget(self) -> None:
        """Forget what was written so far."""
        self._path.unlink(missing_ok=True)

    @property
    def batches(self) -> dict[int, list[Any]]:
        """The records by batch number; pairs are lists."""
        return {time_ms // INTERVAL_MS: records for time_ms, records in self.written}

    @property
    def written(self) -> list[tuple[int, list[Any]]]:
        if not self._path.exists():
            return []
        return [tuple(json.loads(line)) for line in self._path.read_text().splitlines()]
