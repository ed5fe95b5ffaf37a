"""The works as DStream programs. One text for Penstock and for ``pyspark.streaming``: only the import differs."""

from __future__ import annotations

import importlib
import itertools
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from functools import reduce
from operator import add, itemgetter
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

from benchmarks.data import PATTERN, TOP, keyed_batches
from benchmarks.programs.answers import Answers
from benchmarks.programs.task import LINE_WORKS, Batch, NotAvailableError, Result, Task, run_program


class Batches:
    """The batches that completed, as a listener sees them, to the one with which the task is done.

    Args:
        task: says after how many records or batches it is done.
        listener_class: the library's StreamingListener.
    """

    def __init__(self, task: Task, listener_class: type) -> None:
        self._task = task
        self._all: list[Batch] = []
        self._records = 0
        self.done = threading.Event()
        self.listener: Any = type("Listener", (listener_class,), {"onBatchCompleted": self._on_batch_completed})()

    @property
    def all(self) -> tuple[Batch, ...]:
        """All of them so far."""
        return tuple(self._all)

    def _on_batch_completed(self, event: Any) -> None:
        if self.done.is_set():
            return
        info = event.batchInfo()
        batch = Batch(
            info.numRecords(), info.schedulingDelay(), info.processingDelay(), info.processingEndTime() / 1000
        )
        self._all.append(batch)
        self._records += batch.records
        if self._records >= self._task.records if self._task.records else len(self._all) >= self._task.batches:
            self.done.set()


def run(task: Task) -> Result:
    """Start Spark and run the task."""
    _library(task)  # before Spark starts
    warnings.filterwarnings("ignore", "DStream is deprecated", FutureWarning)
    # Each receiver occupies a slot; all engines have the same number of slots for their batches.
    slots = task.cores + len(task.ports)
    conf = SparkConf().setMaster(f"local[{slots}]").setAppName("benchmark").setAll(list(task.conf.items()))
    sc = SparkContext(conf=conf)
    try:
        sc.setLogLevel("ERROR")
        sc.parallelize(range(2), 2).map(lambda number: number).count()  # starts the Python workers
        return run_on(sc, task)
    finally:
        sc.stop()


def run_on(sc: SparkContext, task: Task) -> Result:
    """Run the task on a Spark that is there; stops the StreamingContext, not Spark.

    Raises:
        NotAvailableError: the library lacks what the task needs.
        TimeoutError: the task did not end within its deadline.
    """
    library = _library(task)
    ssc = library.StreamingContext(sc, task.interval_s)
    batches = Batches(task, library.StreamingListener)
    ssc.addStreamingListener(batches.listener)
    with tempfile.TemporaryDirectory(prefix="penstock-benchmark-") as folder:
        answers = Answers(task.work)
        numbers: list[int] = []
        if task.work in LINE_WORKS:
            _on_lines(ssc, task, answers)
        elif task.work == "streams":
            numbers = _on_streams(ssc, task)
        else:
            ssc.checkpoint(folder)
            numbers = _on_keys(ssc, task, library)
        started_s = time.time()
        ssc.start()
        try:
            _await(ssc, batches.done, task)
        finally:
            ssc.stop(False, False)
    if task.work not in LINE_WORKS:
        return Result(batches.all, numbers[: task.batches], started_s=started_s)
    records = sum(batch.records for batch in batches.all)
    return Result(batches.all, answers.answer(records), tuple(answers.delays_ms), started_s=started_s)


def _library(task: Task) -> Any:
    library = importlib.import_module(task.library)
    if task.api == "dataframe" and not hasattr(library.DStream, "toDF"):
        raise NotAvailableError(f"{task.library} has no DataFrame API: DStream.toDF is missing")
    return library


def _await(ssc: Any, done: threading.Event, task: Task) -> None:
    deadline = time.monotonic() + task.deadline_s
    while not done.wait(0.5):
        # Raises the error of a batch that failed.
        if ssc.awaitTerminationOrTimeout(0.01):
            raise RuntimeError("the program ended before its last batch")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{task.work} did not end within {task.deadline_s:g} s")


def _on_lines(ssc: Any, task: Task, answers: Answers) -> None:
    streams = [ssc.socketTextStream("127.0.0.1", port) for port in task.ports]
    lines = reduce(lambda one, other: one.union(other), streams)
    if task.work == "receive":
        lines.foreachRDD(lambda _rdd: None)
    elif task.api == "dataframe":
        from benchmarks.programs import frames

        stream = frames.transformed(lines.toDF(), task.work)
        stream.foreachDataFrame(lambda frame: frames.collect(frame, task.work, answers))
    elif task.api == "arrow":
        from benchmarks.programs import kernels

        counts = lines.mapInArrow(kernels.words).groupBy("word").count()
        counts.foreachRDD(lambda rdd: answers.add_words(rdd.collect()))
    elif task.work == "count":
        lines.foreachRDD(lambda rdd: answers.add_number(rdd.count()))
    elif task.work == "grep":
        lines.filter(lambda line: PATTERN in line).foreachRDD(lambda rdd: answers.add_number(rdd.count()))
    else:
        counts = lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1)).reduceByKey(add)
        if task.work == "topk":
            counts.foreachRDD(lambda rdd: answers.add_top(_most_frequent(rdd)))
        else:
            counts.foreachRDD(lambda rdd: answers.add_words(rdd.collect()))


def _most_frequent(counts: RDD[tuple[str, int]]) -> list[tuple[str, int]]:
    return counts.takeOrdered(TOP, key=lambda pair: (-pair[1], pair[0]))


def _on_streams(ssc: Any, task: Task) -> list[int]:
    counts = [0] * task.batches
    for _ in range(task.streams):
        rdds = [ssc.sparkContext.parallelize(range(task.batch_records), 1) for _ in range(task.batches)]
        ssc.queueStream(rdds).foreachRDD(_adding_to(counts))
    return counts


def _adding_to(counts: list[int]) -> Callable[[RDD[int]], None]:
    """A function that adds the count of each batch of a stream to its place, and ignores batches after the last."""
    numbers = itertools.count()

    # With a single parameter: PySpark passes the batch time to a function with two, defaults or not.
    def count(rdd: RDD[int]) -> None:
        if (number := next(numbers)) < len(counts):
            counts[number] += rdd.count()

    return count


def _on_keys(ssc: Any, task: Task, library: Any) -> list[int]:
    sc = ssc.sparkContext
    data = keyed_batches(task.seed, task.batches, task.batch_records, task.keys)
    stream = ssc.queueStream([sc.parallelize(batch, 2) for batch in data])
    answers: list[int] = []
    if task.work == "window":
        summed = stream.reduceByKeyAndWindow(add, None, task.slides * task.interval_s, task.interval_s)
        summed.foreachRDD(lambda rdd: answers.append(rdd.map(itemgetter(1)).sum()))
        return answers
    initial = sc.range(task.keys, numSlices=2).map(lambda key: (key, 0))
    if task.work == "mapWithState" and hasattr(library, "StateSpec"):
        totals = stream.mapWithState(library.StateSpec.function(_add_one).initialState(initial)).map(itemgetter(1))
    else:
        # The only keyed state that pyspark.streaming has.
        updated = stream.updateStateByKey(lambda values, total: sum(values) + (total or 0), initialRDD=initial)
        totals = updated.map(itemgetter(1))

    def take_largest(rdd: RDD[int]) -> None:
        answers.append(max(rdd.fold(0, max), answers[-1] if answers else 0))

    totals.foreachRDD(take_largest)
    return answers


def _add_one(key: int, value: int | None, state: Any) -> tuple[int, int]:
    state.update((state.getOption() or 0) + (value or 0))
    return key, state.get()


if __name__ == "__main__":
    run_program(run)
