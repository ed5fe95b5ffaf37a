"""Whole programs in processes of their own: what only they can show."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.helpers.forked import Fork
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]

PROGRAM = """
import os, sys
from pyspark import SparkConf, SparkContext
from penstock import StreamingContext, StreamingListener, ThreadReceiver

class Numbers(ThreadReceiver):
    def __init__(self, path):
        self.path = path

    def receive(self):
        number = 0
        while not self.wait(0.05):
            self.store_all([(os.getpid(), number)])
            number += 1
            with open(self.path, "a") as accepted:
                accepted.write("x")

class Events(StreamingListener):
    def onReceiverStarted(self, event): print("started", flush=True)
    def onReceiverError(self, event): print("error:", event.receiverInfo.lastErrorMessage, flush=True)
    def onReceiverStopped(self, event): print("stopped", flush=True)

def count(rdd):
    global seen
    pids = rdd.map(lambda pair: pair[0]).collect()
    seen += len(pids)
    for pid in sorted(set(pids)):
        print("process", pid, flush=True)

seen = 0
conf = SparkConf().setMaster(sys.argv[1]).setAppName("program").set("spark.ui.enabled", "false")
conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.streaming.gracefulStopTimeout", "120s")
sc = SparkContext(conf=conf)
ssc = StreamingContext(sc, 0.5)
ssc.addStreamingListener(Events())
ssc.receiverStream(Numbers(sys.argv[2])).foreachRDD(count)
ssc.start()
"""

INTERRUPTED = """
try:
    ssc.awaitTermination()
except KeyboardInterrupt:
    ssc.stop(stopGracefully=True)
    print("seen", seen, flush=True)

# A second program in the same JVM, which a listener stops together with its SparkContext, at every batch.
class Stops(StreamingListener):
    def onBatchCompleted(self, event):
        ssc.stop(stopSparkContext=True)

sc = SparkContext(conf=conf)
ssc = StreamingContext(sc, 0.2)
ssc.addStreamingListener(Stops())
ssc.queueStream([[1]] * 1000).foreachRDD(lambda rdd: None)
ssc.start()
print("terminated", ssc.awaitTerminationOrTimeout(100), "Spark stopped", sc._jsc is None, flush=True)
"""

SPARK_GONE = """
import time
deadline = time.monotonic() + 150
while seen < 10:
    assert time.monotonic() < deadline
    time.sleep(0.1)
sc.stop()
while StreamingContext.getActive() is not None:
    assert time.monotonic() < deadline
    time.sleep(0.1)
try:
    print("ended", ssc.awaitTerminationOrTimeout(30), flush=True)
except Exception as error:
    print("ended:", error, flush=True)
ssc.stop()
print("active", StreamingContext.getActive(), flush=True)
"""


class Program:
    """A program that runs, and what it has printed."""

    def __init__(self, folder: Path, source: str, master: str, environment: dict[str, str]) -> None:
        self.accepted = folder / "accepted"
        self._out = folder / "out"
        self._errors = folder / "errors"
        path = folder / "program.py"
        path.write_text(source)
        self.process = Fork(
            path,
            [master, str(self.accepted)],
            cwd=folder,
            env=environment,
            stdout=self._out,
            stderr=self._errors,
        )

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        return self._out.read_text().splitlines()

    @property
    def processes(self) -> list[int]:
        """The processes whose records were counted so far, in order."""
        return [int(line.split()[1]) for line in self.lines if line.startswith("process ")]

    def end(self) -> None:
        """Wait for its end."""
        assert self.process.wait(200) == 0, self._errors.read_text()[-3000:]


@pytest.fixture
def run(tmp_path: Path, shared_jvm: SharedJvm) -> Iterator[Callable[..., Program]]:
    """Runs a program: the one above, and what comes after its start."""
    running: list[Program] = []

    def run_program(after: str, master: str) -> Program:
        shared_jvm.prepare({})
        running.append(Program(tmp_path, PROGRAM + after, master, shared_jvm.environment))
        return running[-1]

    yield run_program
    for program in running:
        program.process.kill()
        program.process.wait(30)
    shared_jvm.prepare({})


def test_a_graceful_stop_after_ctrl_c_loses_nothing_and_a_listener_can_stop_spark(
    run: Callable[..., Program], wait_for: Callable[..., None]
) -> None:
    program = run(INTERRUPTED, "local[3]")
    wait_for(lambda: len(program.processes) >= 2, "two batches", 200)
    program.process.send_signal(signal.SIGINT)
    program.end()
    (seen,) = [int(line.split()[1]) for line in program.lines if line.startswith("seen ")]
    assert seen == len(program.accepted.read_text())
    assert program.lines[-1] == "terminated True Spark stopped True"


def test_a_context_whose_spark_is_gone_stops(run: Callable[..., Program]) -> None:
    program = run(SPARK_GONE, "local[3]")
    program.end()
    assert program.lines[-1] == "active None"
    assert any("the SparkContext was stopped" in line for line in program.lines)
