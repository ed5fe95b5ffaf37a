"""Examples as users start them, ``python`` and ``penstock run``: killed, started again, and stopped by Ctrl-C."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers import wait_for
from tests.helpers.forked import Fork
from tests.helpers.line_server import LineServer, line_server
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]

EXAMPLES = Path(__file__).parents[3] / "examples"
# Two slots: one for the receiver, one for batches.
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.streaming.gracefulStopTimeout": "100s",
}


@pytest.fixture
def server() -> Iterator[LineServer]:
    """A TCP server on a port of its own."""
    with line_server() as serving:
        yield serving


class Program:
    """A program that runs, and what it has printed."""

    def __init__(self, program: Path | str, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._out = folder / "out"
        self._errors = folder / "errors"
        for path in (self._out, self._errors):
            path.unlink(missing_ok=True)
        self.process = Fork(program, arguments, cwd=folder, env=environment, stdout=self._out, stderr=self._errors)

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        return self._out.read_text().splitlines()

    def end(self) -> None:
        """End it as its user does. It says nothing more than that this machine is busy."""
        self.process.send_signal(signal.SIGINT)
        code, errors = self.process.wait(200), self._errors.read_text().splitlines()
        assert (code, [line for line in errors if "batch generation slower" not in line]) == (0, [])


Start = Callable[..., Program]


@pytest.fixture
def start(shared_jvm: SharedJvm, tmp_path: Path) -> Iterator[Start]:
    """Starts a program: as ``python`` does the first time, later as ``penstock run`` does; kills the one before."""
    running: list[Program] = []

    def kill_last() -> None:
        if running:
            running[-1].process.kill()
            running[-1].process.wait(30)
        shared_jvm.prepare({})

    def run(path: Path, *arguments: object) -> Program:
        given, is_first = [str(argument) for argument in arguments], not running
        kill_last()
        shared_jvm.prepare(CONF)
        program, its = (path, given) if is_first else ("penstock_cli", ["run", str(path), *given])
        running.append(Program(program, its, tmp_path, shared_jvm.environment))
        return running[-1]

    yield run
    kill_last()


def test_recoverable_wordcount_keeps_its_counts_when_it_is_killed(
    start: Start, server: LineServer, tmp_path: Path
) -> None:
    example, arguments = EXAMPLES / "recoverable_wordcount.py", (*server.address, tmp_path / "checkpoint")
    program = start(example, *arguments)
    first = server.accept()
    first.sendall(b"a rose is a rose\n")
    wait_for(lambda: {"('a', 2)", "('rose', 2)", "('is', 1)"} <= set(program.lines), "the first line's words")
    assert program.lines[0].startswith("first start")
    program.process.kill()
    first.close()
    again = start(example, *arguments)
    # The receiver of the killed program, which ends with its Spark, may have connected again.
    with server.accept() as second:
        second.sendall(b"a tulip\n")
        wait_for(lambda: {"('a', 3)", "('rose', 2)", "('tulip', 1)"} <= set(again.lines), "the words of both lines")
        again.end()
    assert not any(line.startswith("first start") for line in again.lines)


# An output after the one that writes: it notes the batch, and waits while a named pipe exists.
HOLD = """
def hold(time, rdd):
    if not rdd.isEmpty():
        with open({folder!r} + "/ran", "a") as ran:
            ran.write(str(time) + "\\n")
        try:
            open({folder!r} + "/hold").read()
        except FileNotFoundError:
            pass


def create():
"""


def test_exactly_once_adds_each_word_once_when_it_is_killed_between_output_and_checkpoint(
    start: Start, tmp_path: Path
) -> None:
    texts, database, checkpoint = tmp_path / "texts", tmp_path / "counts.sqlite", tmp_path / "checkpoint"
    ran, hold, program = tmp_path / "ran", tmp_path / "hold", tmp_path / "exactly_once.py"
    source = (EXAMPLES / "exactly_once.py").read_text()
    for before, after in {
        "\ndef create():\n": HOLD.format(folder=str(tmp_path)),
        ".foreachRDD(write)\n": ".foreachRDD(write)\n    words.foreachRDD(hold)\n",
    }.items():
        assert source.count(before) == 1
        source = source.replace(before, after)
    program.write_text(source)
    texts.mkdir()
    os.mkfifo(hold)

    def add(name: str, text: str) -> None:
        (texts / f".{name}").write_text(text)
        (texts / f".{name}").rename(texts / name)

    def counts() -> dict[str, int]:
        with closing(sqlite3.connect(database)) as connection:
            return dict(connection.execute("SELECT word, n FROM counts"))

    start(program, texts, database, checkpoint)
    wait_for(lambda: any(checkpoint.glob("checkpoint-*")), "the first checkpoint")
    add("first", "to be or not to be\n")
    # The output waits: the batch is in the database, and is not complete.
    pipe = os.open(hold, os.O_RDWR)
    wait_for(ran.exists, "the batch is written")
    once = {"to": 2, "be": 2, "or": 1, "not": 1}
    assert counts() == once
    hold.unlink()
    again = start(program, texts, database, checkpoint)
    os.close(pipe)
    wait_for(lambda: len(ran.read_text().splitlines()) >= 2, "the batch runs again")
    first, second = ran.read_text().splitlines()
    assert first == second
    assert counts() == once
    add("second", "not to say\n")
    wait_for(lambda: "say" in counts(), "the second file's words")
    again.end()
    assert counts() == {"to": 3, "be": 2, "or": 1, "not": 2, "say": 1}
