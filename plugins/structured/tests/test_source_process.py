"""The process of a source: signals wait for ``stop``, threads that a receiver has left do not keep it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import read_int, write_int, write_with_length
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import StringType, StructField, StructType
from tests.helpers import wait_for
from tests.helpers.processes import kill, remaining_processes

from penstock_structured import PenstockDataSource
from penstock_structured.block_directory import BlockDirectory

# Forks that have imported what the programs need; its standard input has their environments and code.
FORKS = """
import json, os, signal, sys
import penstock_structured.data_source
from pyspark.sql.streaming import python_streaming_source_runner

signal.signal(signal.SIGCHLD, signal.SIG_IGN)

for line in sys.stdin:
    environment, code = json.loads(line)
    if not os.fork():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.update(environment)
        exec(code)
        sys.exit()
"""

NOTED = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
from penstock_structured import source_process

note = Path(os.environ["NOTE"])
source_process.prepare(lambda: note.with_name("stopped").touch())
threading.Thread(target=time.sleep, args=(600,)).start()
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
child.terminate()
assert child.wait(60) == -signal.SIGTERM
if not (forked := os.fork()):
    time.sleep(600)
time.sleep(0.1)
os.kill(forked, signal.SIGTERM)
assert os.waitpid(forked, 0)[1] == signal.SIGTERM
assert not source_process.end_reason()
note.with_suffix(".partial").write_text(str(os.getpid()))
note.with_suffix(".partial").rename(note)
"""

SOURCE = """
from pyspark.sql.streaming.python_streaming_source_runner import get_sock_file_to_executor, main

with get_sock_file_to_executor(timeout=None) as file:
    main(file, file)
"""

BEFORE_4_2 = """
import importlib, os, pathlib, sys
import pyspark.sql.streaming as streaming
from penstock_structured import data_source

sys.modules["pyspark.sql.streaming.datasource"] = None
del streaming.datasource
importlib.reload(data_source)
assert data_source.limits is None
pathlib.Path(os.environ["NOTE"]).touch()
"""

Run = Callable[[str, dict[str, str]], None]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs programs in forks of one process."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None

        def run(code: str, environment: dict[str, str]) -> None:
            assert forks.stdin is not None
            print(json.dumps([environment, code]), file=forks.stdin, flush=True)

        yield run
        forks.stdin.close()


def ends(pid: int) -> bool:
    """Whether a process ends."""
    return not remaining_processes([pid], 30)


def test_a_signal_stops_the_source_and_the_process_ends_although_a_thread_runs(run: Run, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    run(NOTED, {"NOTE": str(note)})
    wait_for(note.exists, "the process")
    pid = int(note.read_text())
    os.kill(pid, signal.SIGTERM)
    assert ends(pid)
    assert (tmp_path / "stopped").exists()


def test_the_source_is_importable_without_the_read_limits_of_pyspark_4_2(run: Run, tmp_path: Path) -> None:
    run(BEFORE_4_2, {"NOTE": str(tmp_path / "imported")})
    wait_for((tmp_path / "imported").exists, "the import")


class Source:
    """The process that Spark keeps for a source, driven as Spark drives it, without a JVM."""

    def __init__(self, run: Run, folder: Path, **options: str) -> None:
        path = str(folder / "socket")
        (folder / "local").mkdir()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            server.settimeout(60)
            run(SOURCE, {"PYTHON_WORKER_FACTORY_SOCK_PATH": path, "SPARK_LOCAL_DIRS": str(folder / "local")})
            self._connection, _address = server.accept()
        self._connection.settimeout(60)
        self._file = self._connection.makefile("rwb")
        self.pid = int(read_int(self._file))
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
def start(run: Run, tmp_path: Path) -> Iterator[Callable[..., Source]]:
    made: list[Source] = []

    def start(**options: str) -> Source:
        made.append(Source(run, tmp_path, **options))
        return made[-1]

    yield start
    for each in made:
        each.disconnect()
        kill(each.pid)


@pytest.mark.parametrize("way", ["query.stop()", "the JVM dies", "spark.stop()", "Ctrl-C"])
def test_the_receiver_is_stopped_and_what_it_has_buffered_is_stored(
    start: Callable[..., Source], tmp_path: Path, way: str
) -> None:
    source = start(**{"spark.streaming.blockInterval": "50ms", "initialRate": "1000"})
    offset = source.ask(runner.INITIAL_OFFSET_FUNC_ID)
    wait_for(
        lambda: source.ask(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, offset, ALL_AVAILABLE) != offset, "blocks"
    )
    if way == "query.stop()":
        os.kill(source.pid, signal.SIGTERM)
    if way == "Ctrl-C":
        os.kill(source.pid, signal.SIGINT)
    elif way == "spark.stop()":
        # The connection remains, and an idle query asks for nothing.
        (tmp_path / "local").rmdir()
    else:
        source.disconnect()
    # It takes some tenths of a second on an idle machine.
    assert ends(source.pid)
    assert not list((tmp_path / "blocks").glob(".*"))
    with closing(BlockDirectory(tmp_path / "blocks", "synthetic")) as blocks:
        assert blocks.end == len(blocks.since(0)) > 0


def test_a_stop_during_the_wait_for_a_quiet_receiver_ends_the_process(start: Callable[..., Source]) -> None:
    source = start(total="5", quietPeriod="600", availableNowTimeout="600")
    offset = source.ask(runner.INITIAL_OFFSET_FUNC_ID)
    source.send(runner.PREPARE_FOR_TRIGGER_AVAILABLE_NOW_FUNC_ID)
    assert source.reads_int() == 0
    source.send(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, offset, ALL_AVAILABLE)
    os.kill(source.pid, signal.SIGTERM)
    source.disconnect()
    assert ends(source.pid)
