"""A program on two executors, for ``test_two_executors``: where receivers start, when they move, what they survive.

Runs in a process of its own and prints its observations as one JSON object.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from benchmarks import program_state
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from tests.helpers import engine_of, kill, wait_for

from penstock import StreamingContext, StreamingListener, ThreadReceiver
from penstock.blocks.block_directories import executor_process
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock.spark.rdds import LocatedPartition, located_rdd
from penstock_cli.java import ensure_java


class Start(NamedTuple):
    """A start of a receiver: the process id of its executor (0: unknown) and of its Python worker."""

    executor: int
    worker: int


class Counting(ThreadReceiver[int]):
    """Stores numbers reliably, each once, and writes down the processes of every start."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def receive(self) -> None:
        executor = executor_process()
        with self.notes.with_suffix(".starts").open("a") as starts:
            starts.write(f"{executor.pid} {os.getpid()}\n")
        while not self.wait(0.1):
            with self.notes.with_suffix(".begun").open("ab", buffering=0) as begun:
                begun.write(b".")
            number = self.notes.with_suffix(".begun").stat().st_size
            self.store_all([number])
            with self.notes.with_suffix(".stored").open("a") as stored:
                stored.write(f"{number}\n")

    @property
    def starts(self) -> list[Start]:
        """All starts so far, in order."""
        notes = self.notes.with_suffix(".starts")
        if not notes.exists():
            return []
        # A line without its end is still being written.
        lines = [line for line in notes.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [Start(*map(int, line.split())) for line in lines]


def occupy(sc: SparkContext, executor: TaskLocation, slots: int, until: Path) -> threading.Thread:
    """Have tasks hold slots of an executor until a file exists."""
    for attempt in itertools.count():
        thread, executors = hold_slots(sc, executor, slots, until.with_name(f"held-{attempt}"), until)
        if executors == {executor.executor_id}:
            return thread
        # An executor that has just registered offers no slot for some time, and Spark then takes another one.
        until.touch()
        thread.join(120)
        until.unlink()
    raise AssertionError


def hold_slots(
    sc: SparkContext, executor: TaskLocation, slots: int, notes: Path, until: Path
) -> tuple[threading.Thread, set[str]]:
    """The thread whose tasks hold slots until a file exists, and the executors on which they run."""

    def hold(index: int, _elements: Iterable[Any]) -> Iterable[int]:
        command = psutil.Process(executor_process().pid).cmdline()
        notes.with_suffix(f".{index}").write_text(command[command.index("--executor-id") + 1])
        deadline = time.monotonic() + 600
        while not until.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return iter(())

    rdd = located_rdd(sc, [LocatedPartition(None, (executor.preference,)) for _ in range(slots)])
    thread = threading.Thread(target=lambda: rdd.mapPartitionsWithIndex(hold).count(), daemon=True)
    thread.start()
    found = [notes.with_suffix(f".{index}") for index in range(slots)]
    wait_for(lambda: all(each.exists() and each.read_text() for each in found), "the slots are taken")
    return thread, {each.read_text() for each in found}


class ReceiverEvents(StreamingListener):
    """Collects the events of the second receiver: what happened, and on which executor. And why batches failed."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []
        self.failures: list[str] = []

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        self._note("started", receiverStarted)

    def onReceiverError(self, receiverError: Any) -> None:
        self._note("error", receiverError)

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        self._note("stopped", receiverStopped)

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        operations = batchCompleted.batchInfo.outputOperationInfos.values()
        self.failures += [operation.failureReason for operation in operations if operation.failureReason]

    def _note(self, what: str, event: Any) -> None:
        if event.receiverInfo.streamId == 1:
            self.all.append((what, event.receiverInfo.executorId))


class Warnings(logging.Handler):
    """Collects the warnings of the driver."""

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
    held = occupy(sc, first, 2, freed)
    receivers = [Counting(folder / name) for name in ("a", "b")]
    seen: list[list[int]] = [[], []]
    events = ReceiverEvents()
    ssc = StreamingContext(sc, 1)
    ssc.addStreamingListener(events)
    for receiver, into in zip(receivers, seen, strict=True):
        ssc.receiverStream(receiver).foreachRDD(lambda rdd, into=into: into.extend(rdd.collect()))
    ssc.start()

    def on() -> list[str]:
        return [info.executorId if info.active else "" for info in engine_of(ssc).tracker.receiver_infos().values()]

    def settled() -> bool:
        """Both receivers are active on executors of their own, and the last start of each is that of its process.

        A receiver writes its start down after it has registered: until then its last start names a process that may
        be gone. The executor in it then is the one that both receivers shared, or one that has been killed.
        """
        executor_ids, last = on(), [receiver.starts[-1] for receiver in receivers if receiver.starts]
        return (
            len(set(executor_ids) - {""}) == 2
            and len({start.executor for start in last} - {0}) == 2
            and all(kill(pid, 0) for start in last for pid in start)
        )

    # The executor that the scheduling policy chose for the first one has no slot: both start on the other one.
    wait_for(lambda: on() == [second.executor_id] * 2, "both on the second executor")
    crowded, refused = on(), warnings.count("receiver refused")
    freed.touch()
    held.join(10)
    wait_for(settled, "one has moved to the executor with free slots")
    spread, starts = on(), [len(receiver.starts) for receiver in receivers]
    wait_for(lambda: all(seen), "records of both")
    assert kill(receivers[0].starts[-1].executor)
    wait_for(lambda: len(receivers[0].starts) > starts[0], "the first is back")
    wait_for(lambda: spread[0] not in on() and settled(), "one on each of the two executors that live")
    back = on()
    # Events are delivered later: the start of its last move must not count as one after the kill.
    wait_for(lambda: events.all[-1] == ("started", back[1]), "the events of the second so far")
    before = len(events.all)
    assert kill(receivers[1].starts[-1].worker)
    wait_for(lambda: "started" in [what for what, _ in events.all[before:]], "the second is back, in another process")
    after_kill = [what for what, _ in events.all[before:]]
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
        "killed on": spread[0],
        "back": back,
        "events of a killed worker": after_kill,
        "stop took": stop_s,
        "failed batches": events.failures,
        "stored": [len(numbers) for numbers in stored],
        "lost": [sorted(set(numbers) - set(into)) for numbers, into in zip(stored, seen, strict=True)],
        "twice": [sorted((Counter(into) - Counter(set(into))).elements()) for into in seen],
    }


if __name__ == "__main__":
    ensure_java()
    conf = SparkConf().setMaster("local-cluster[2,2,1024]").setAppName("two executors").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.python.unix.domain.socket.enabled", "true")
    conf.set("spark.locality.wait", "0").set("spark.local.dir", sys.argv[1])
    conf.set("spark.streaming.gracefulStopTimeout", "180s")
    conf.set(*program_state.TRACEBACKS)
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    try:
        report = run(sc, Path(sys.argv[1]))
    except AssertionError:
        print(program_state.describe(sc, StreamingContext.getActive()), file=sys.stderr, flush=True)
        raise
    finally:
        application = sc.applicationId
        sc.stop()
        # The workers of a local-cluster keep the output of executors there.
        if application:
            shutil.rmtree(Path(_find_spark_home()) / "work" / application, ignore_errors=True)
    print(json.dumps(report))
