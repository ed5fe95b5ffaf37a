"""A program on two executors, for ``test_two_executors``: where receivers come up, when they move, what they outlive.

Prints one JSON object of what it saw. Spark speculates here as eagerly as it can. Runs in a process of its own.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home

from penstock import StreamingContext, StreamingListener, ThreadReceiver
from penstock.blocks.leftovers import executor_process
from penstock.launch.java import ensure_java
from penstock.spark import cluster
from penstock.spark.located_rdd import LocatedPartition, located_rdd


class Counting(ThreadReceiver[int]):
    """Stores numbers reliably, each once, and notes where it was started: on which executor, in which process."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def receive(self) -> None:
        executor = executor_process()
        with self.notes.with_suffix(".starts").open("a") as starts:
            starts.write(f"{executor.pid if executor else 0} {os.getpid()}\n")
        while not self.wait(0.02):
            with self.notes.with_suffix(".begun").open("ab", buffering=0) as begun:
                begun.write(b".")
            number = self.notes.with_suffix(".begun").stat().st_size
            self.store_all([number])
            with self.notes.with_suffix(".stored").open("a") as stored:
                stored.write(f"{number}\n")

    @property
    def starts(self) -> list[tuple[int, int]]:
        """The executor and the Python worker of each start."""
        lines = self.notes.with_suffix(".starts").read_text().splitlines()
        return [(int(executor), int(worker)) for executor, worker in map(str.split, lines)]


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.02)


def occupy(sc: SparkContext, place: str, slots: int, until: Path) -> threading.Thread:
    """Have tasks hold slots of an executor until a file is there."""

    def hold(index: int, _elements: Iterable[Any]) -> Iterable[int]:
        until.with_suffix(f".{index}").touch()
        while not until.exists():
            time.sleep(0.05)
        return iter(())

    rdd = located_rdd(sc, [LocatedPartition(None, (place,)) for _ in range(slots)])
    thread = threading.Thread(target=lambda: rdd.mapPartitionsWithIndex(hold).count(), daemon=True)
    thread.start()
    wait_for(lambda: all(until.with_suffix(f".{index}").exists() for index in range(slots)), "the slots are taken")
    return thread


class Told(StreamingListener):
    """Notes what is told of the second receiver."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        self._note("started", receiverStarted)

    def onReceiverError(self, receiverError: Any) -> None:
        self._note("error", receiverError)

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        self._note("stopped", receiverStopped)

    def _note(self, what: str, event: Any) -> None:
        if event.receiverInfo.streamId == 1:
            self.all.append(what)


class Warnings(logging.Handler):
    """Counts what is warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def count(self, text: str) -> int:
        return sum(text in message for message in self.messages)


def run(sc: SparkContext, folder: Path) -> dict[str, Any]:
    warnings = Warnings()
    logging.getLogger("penstock").addHandler(warnings)
    wait_for(lambda: len(cluster.executors(sc)) == 2, "two executors")
    first, second = cluster.executors(sc)
    freed = folder / "freed"
    held = occupy(sc, first.preference, 2, freed)
    receivers = [Counting(folder / name) for name in ("a", "b")]
    seen: list[list[int]] = [[], []]
    told = Told()
    ssc = StreamingContext(sc, 1)
    ssc.addStreamingListener(told)
    for receiver, into in zip(receivers, seen, strict=True):
        ssc.receiverStream(receiver).foreachRDD(lambda rdd, into=into: into.extend(rdd.collect()))
    ssc.start()

    def on() -> list[str]:
        return [info.executorId if info.active else "" for info in ssc.receiver_infos().values()]

    # The first has no slot where it should be: it comes up beside the other one, and may stay in the end.
    wait_for(lambda: on() == [second.executor_id] * 2, "both on the second executor")
    crowded, refused = on(), warnings.count("receiver refused")
    freed.touch()
    held.join(10)
    # There is room now, as if the executor had just joined.
    wait_for(lambda: set(on()) == {first.executor_id, second.executor_id}, "one has moved")
    spread = on()
    wait_for(lambda: all(seen), "records of both")
    # A while for Spark to think that they take too long: no batch but them runs so long.
    time.sleep(1.5)
    starts = [len(receiver.starts) for receiver in receivers]
    executor, _ = receivers[0].starts[-1]
    os.kill(executor, signal.SIGKILL)
    wait_for(lambda: len(receivers[0].starts) > starts[0], "the first is back")
    killed_on = spread[0]
    wait_for(lambda: len(set(on()) - {"", killed_on}) == 2, "one has moved to the new executor")
    back = on()
    before = len(told.all)
    _, worker = receivers[1].starts[-1]
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: "started" in told.all[before:], "the second is back, in another process")
    told_of_worker = told.all[before:]
    stopping = time.monotonic()
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    stop_s = time.monotonic() - stopping
    stored = [
        [int(line) for line in receiver.notes.with_suffix(".stored").read_text().split()] for receiver in receivers
    ]
    return {
        "first": first.executor_id,
        "second": second.executor_id,
        "crowded": crowded,
        "refused": refused,
        "spread": spread,
        "moves": warnings.count("receiver moves"),
        "starts": starts,
        "killed on": killed_on,
        "back": back,
        "told of a killed worker": told_of_worker,
        "stop took": stop_s,
        "failed batches": ssc.generator_report().failed_batches,
        "stored": [len(numbers) for numbers in stored],
        "lost": [len(set(numbers) - set(into)) for numbers, into in zip(stored, seen, strict=True)],
        "twice": [len(into) - len(set(into)) for into in seen],
    }


if __name__ == "__main__":
    ensure_java()
    conf = SparkConf().setMaster("local-cluster[2,2,1024]").setAppName("two executors").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.python.unix.domain.socket.enabled", "true")
    conf.set("spark.locality.wait", "0").set("spark.local.dir", sys.argv[1])
    conf.set("spark.speculation", "true").set("spark.speculation.interval", "50ms")
    conf.set("spark.speculation.multiplier", "1.01").set("spark.speculation.quantile", "0.01")
    conf.set("spark.speculation.minTaskRuntime", "100ms")
    conf.set("spark.penstock.receiver.relaunchDelay", "50ms").set("spark.streaming.gracefulStopTimeout", "40s")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    try:
        report = run(sc, Path(sys.argv[1]))
    finally:
        application = sc.applicationId
        sc.stop()
        # Where the workers of a local-cluster keep what executors print.
        if application:
            shutil.rmtree(Path(_find_spark_home()) / "work" / application, ignore_errors=True)
    print(json.dumps(report))
