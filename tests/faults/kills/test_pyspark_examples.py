"""PySpark's own example programs, with only the import changed, recover after a kill."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from tests.helpers.forked import Fork
from tests.helpers.shared_jvm import SharedJvm

from penstock import conf

pytestmark = [pytest.mark.spark, pytest.mark.programs]

EXAMPLES = Path(pyspark.__file__).parent / "examples" / "src" / "main" / "python" / "streaming"


class Program:
    """A program that runs, and what it has printed."""

    def __init__(self, path: Path, args: list[str], environment: dict[str, str]) -> None:
        self._out, errors = path.with_suffix(".out"), path.with_suffix(".errors")
        self.process = Fork(path, args, cwd=path.parent, env=environment, stdout=self._out, stderr=errors)

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        return self._out.read_text().splitlines()


@pytest.fixture
def example(shared_jvm: SharedJvm) -> Iterator[Callable[..., Program]]:
    """Runs an example after changing its import; ends the one before."""
    running: list[Program] = []

    def end_last() -> None:
        if running:
            running[-1].process.send_signal(signal.SIGTERM)
            running[-1].process.wait(30)

    def run(name: str, *args: str, configuration: Mapping[str, str] | None = None) -> Program:
        source = (EXAMPLES / name).read_text()
        changed = source.replace("from pyspark.streaming import", "from penstock import")
        assert changed.count("from penstock import") == 1
        path = shared_jvm.folder / f"{len(running)}-{name}"
        path.write_text(changed)
        end_last()
        # Two slots, as the programs take whatever the machine has: one for the receiver, one for batches.
        chosen = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.streaming.gracefulStopTimeout": "100s",
        }
        shared_jvm.prepare(chosen | dict(configuration or {}))
        running.append(Program(path, list(args), shared_jvm.environment))
        return running[-1]

    yield run
    end_last()
    shared_jvm.prepare({})


class Server:
    """A server that the examples connect to."""

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket
        self.address = ("127.0.0.1", str(socket.getsockname()[1]))

    def accept(self) -> socket.socket:
        """The example's connection."""
        connection, _ = self._socket.accept()
        connection.settimeout(120)
        return connection


def kill(program: Program, connection: socket.socket, shared_jvm: SharedJvm) -> None:
    """Kill a program, and end its receiver, which would take the connection of the next program."""
    program.process.kill()
    program.process.wait(30)
    shared_jvm.prepare({})
    with suppress(ConnectionResetError):
        assert connection.recv(1) == b""


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        yield Server(listening)


def test_recoverable_network_wordcount_recovers_after_a_kill(
    example: Callable[..., Program], server: Server, shared_jvm: SharedJvm, wait_for: Callable[..., None]
) -> None:
    arguments = ("recoverable_network_wordcount.py", *server.address, "checkpoints", "counts.txt")
    program = example(*arguments)
    counts = shared_jvm.folder / "counts.txt"
    with server.accept() as connection:
        connection.sendall(b"a rose is a rose\n")
        wait_for(lambda: counts.exists() and "('rose', 2)" in counts.read_text(), "the line's words", 120)
        assert "Creating new context" in program.lines
        wait_for(lambda: "Dropped 2 word(s) totally" in program.lines, "the excluded words, counted")
        assert "('a'" not in counts.read_text()
        kill(program, connection, shared_jvm)
    again = example(*arguments)
    with server.accept() as connection:
        connection.sendall(b"a tulip is no rose\n")
        wait_for(lambda: "('tulip', 1)" in counts.read_text(), "words after the kill", 120)
    wait_for(lambda: "Dropped 1 word(s) totally" in again.lines, "the excluded word, counted anew")
    # The file would have been deleted, too.
    assert "Creating new context" not in again.lines
    assert "('rose', 2)" in counts.read_text()


def test_stateful_network_wordcount_recovers_after_a_kill(
    example: Callable[..., Program], server: Server, shared_jvm: SharedJvm, wait_for: Callable[..., None]
) -> None:
    """It says nothing of recovery: that its own code makes the streams again, and the log, are configuration."""
    configuration = {conf.key("checkpoint_rebuild"): "true", conf.key("wal_enabled"): "true"}
    program = example("stateful_network_wordcount.py", *server.address, configuration=configuration)
    with server.accept() as connection:
        connection.sendall(b"hello streams\n")
        wait_for(lambda: "('hello', 2)" in program.lines, "the initial state and one more", 120)
        kill(program, connection, shared_jvm)
    again = example("stateful_network_wordcount.py", *server.address, configuration=configuration)
    with server.accept() as connection:
        connection.sendall(b"hello again\n")
        # The lines of a batch are printed one by one.
        expected = {"('hello', 3)", "('world', 1)", "('streams', 1)"}
        wait_for(lambda: expected <= set(again.lines), "the state before the kill and one more", 120)
