"""The process of a source: signals wait for ``stop``, threads that a receiver has left do not keep it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import read_int, write_int, write_with_length
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import StringType, StructField, StructType
from tests.helpers import wait_for

from penstock_structured import PenstockDataSource
from penstock_structured.block_directory import BlockDirectory

PROGRAM = """
import os, signal, subprocess, sys, threading, time
from penstock_structured import source_process

source_process.prepare()
threading.Thread(target=time.sleep, args=(600,)).start()
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
child.terminate()
assert child.wait(60) == -signal.SIGTERM
if not (forked := os.fork()):
    time.sleep(600)
time.sleep(0.1)
os.kill(forked, signal.SIGTERM)
assert os.waitpid(forked, 0)[1] == signal.SIGTERM
assert not source_process.is_query_over()
print("ready", flush=True)
deadline = time.monotonic() + 60
while not source_process.is_query_over() and time.monotonic() < deadline:
    time.sleep(0.01)
print("over", flush=True)
"""


def test_a_signal_is_noted_and_the_process_ends_although_a_thread_runs() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "over\n"
        began = time.monotonic()
        assert process.wait(60) == 1
        assert time.monotonic() - began < 30
    finally:
        process.kill()
        process.stdout.close()


class Source:
    """The process that Spark keeps for a source, driven as Spark drives it, without a JVM."""

    def __init__(self, folder: Path, **options: str) -> None:
        path = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as server, (folder / "errors").open("w") as errors:
            server.bind(path)
            server.listen()
            server.settimeout(60)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pyspark.sql.streaming.python_streaming_source_runner"],
                env={**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": path},
                stderr=errors,
            )
            self._connection, _address = server.accept()
        self._connection.settimeout(60)
        self._file = self._connection.makefile("rwb")
        assert read_int(self._file) == self.process.pid
        given = {"receiver": "synthetic", "rate": "0", "blocks": str(folder / "blocks"), **options}
        schema = StructType([StructField("value", StringType())])
        for text in ("{}.{}".format(*sys.version_info), str(folder)):
            write_with_length(text.encode(), self._file)
        write_int(0, self._file)
        write_with_length(pickle.dumps(PenstockDataSource(given)), self._file)
        write_with_length(schema.json().encode(), self._file)
        write_int(1000, self._file)
        self._file.flush()
        assert read_int(self._file) == 0

    def ask(self, function: int, *arguments: Any) -> Any:
        """Call the reader."""
        self.send(function, *arguments)
        return json.loads(self._file.read(read_int(self._file)))

    def send(self, function: int, *arguments: Any) -> None:
        """Begin a call of the reader."""
        write_int(function, self._file)
        for argument in arguments:
            write_with_length(json.dumps(argument).encode(), self._file)
        self._file.flush()

    def reads_int(self) -> int:
        """The answer to a call without a result."""
        return int(read_int(self._file))

    def disconnect(self) -> None:
        """Close the connection, as Spark does and as the system does when the JVM dies. Idempotent."""
        # Both refer to it.
        self._file.close()
        self._connection.close()


ALL_AVAILABLE = {"_type": "ReadAllAvailable"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Source]]:
    made: list[Source] = []

    def start(**options: str) -> Source:
        made.append(Source(tmp_path, **options))
        return made[-1]

    yield start
    for each in made:
        each.disconnect()
        each.process.kill()
        each.process.wait()


@pytest.mark.parametrize("is_signalled", [True, False], ids=["query.stop()", "the JVM dies"])
def test_the_receiver_is_stopped_and_what_it_has_buffered_is_stored(
    start: Callable[..., Source], tmp_path: Path, is_signalled: bool
) -> None:
    source = start(**{"spark.streaming.blockInterval": "50ms", "initialRate": "1000"})
    offset = source.ask(runner.INITIAL_OFFSET_FUNC_ID)
    wait_for(
        lambda: source.ask(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, offset, ALL_AVAILABLE) != offset, "blocks"
    )
    if is_signalled:
        source.process.send_signal(signal.SIGTERM)
    source.disconnect()
    # It takes some tenths of a second on an idle machine.
    source.process.wait(30)
    assert not list((tmp_path / "blocks").glob(".*"))
    with closing(BlockDirectory(tmp_path / "blocks", "synthetic")) as blocks:
        assert blocks.end == len(blocks.since(0)) > 0


def test_a_stop_during_the_wait_for_a_quiet_receiver_ends_the_process(start: Callable[..., Source]) -> None:
    source = start(total="5", quietPeriod="600", availableNowTimeout="600")
    offset = source.ask(runner.INITIAL_OFFSET_FUNC_ID)
    source.send(runner.PREPARE_FOR_TRIGGER_AVAILABLE_NOW_FUNC_ID)
    assert source.reads_int() == 0
    source.send(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, offset, ALL_AVAILABLE)
    source.process.send_signal(signal.SIGTERM)
    source.disconnect()
    source.process.wait(30)


def test_a_source_that_was_told_to_end_ends_with_the_next_call(start: Callable[..., Source]) -> None:
    source = start(total="5")
    offset = source.ask(runner.INITIAL_OFFSET_FUNC_ID)
    source.process.send_signal(signal.SIGTERM)
    source.send(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, offset, ALL_AVAILABLE)
    source.process.wait(30)
