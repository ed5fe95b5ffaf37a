"""Blocks that a killed program left are swept when the next one starts, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pyspark import cloudpickle

from penstock import StreamingContext, ThreadReceiver

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys, time
from pyspark import SparkConf, SparkContext
from penstock import StreamingContext
from penstock_cli.java import ensure_java

ensure_java()
conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.local.dir", sys.argv[1])
sc = SparkContext(conf=conf)
ssc = StreamingContext(sc, 86400)
ssc.receiverStream("synthetic", rate=100.0).foreachRDD(lambda rdd: None)
ssc.start()
deadline = time.monotonic() + 120
while not ssc._engine.tracker.backlog.num_bytes:
    assert time.monotonic() < deadline
    time.sleep(0.05)
jvm = sc._gateway.proc.pid
print("stored", jvm, flush=True)
time.sleep(60)
"""


class Once(ThreadReceiver[int]):
    """Stores one number."""

    def receive(self) -> None:
        self.store_all([1])


@pytest.fixture(autouse=True)
def _travels_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture
def killed(tmp_path: Path) -> list[Path]:
    """The block directories of a program that was killed, with its Java, while it had data."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        word, jvm = program.stdout.readline().split()
        assert word == "stored"
        # The launcher of the JVM is a script that became it.
        assert psutil.Process(int(jvm)).name() == "java"
        os.kill(int(jvm), signal.SIGKILL)
        program.kill()
    return [path.parent for path in tmp_path.glob("*/**/.penstock-run")]


def test_the_next_start_sweeps_what_a_killed_program_left(
    killed: list[Path], ssc: StreamingContext, collect: Callable[..., object], wait_for: Callable[..., None]
) -> None:
    (left,) = killed
    assert list(left.glob("*.arrow"))
    beside = left.parent / "somebody-elses"
    beside.mkdir()
    (left.parent.parent / "of-spark").touch()
    batches = collect(ssc.receiverStream(Once()))
    ssc.start()
    wait_for(lambda: batches.records, "the record")  # type: ignore[attr-defined]
    assert not left.exists()
    assert beside.exists()
    assert (left.parent.parent / "of-spark").exists()
    notes = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    assert not list(notes.glob(f"{left.name}-*.json"))
