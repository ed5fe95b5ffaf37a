"""Mutants of the live checks XX-01 to XX-06: each needs Spark, so only ``python -m tests.mutants --live`` runs them."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from tests.mutants.mutant import Mutant

from penstock import ReceiverStoppedError, ThreadReceiver
from penstock_testing import TcpFeeder


class LineReceiver(ThreadReceiver[str]):
    """The reference: reads lines from the feeder's server."""

    def __init__(self, feeder: TcpFeeder) -> None:
        self.address = (feeder.options()["host"], int(feeder.options()["port"]))
        self.connection: socket.socket | None = None

    def receive(self) -> None:
        self.connection = socket.create_connection(self.address)
        with self.connection, self.connection.makefile("r", newline="\n") as lines:
            for line in lines:
                self.take(line.removesuffix("\n"))
        raise ConnectionError("the server closed the connection")

    def take(self, line: str) -> None:
        self.store(line)

    def onStop(self) -> None:
        if self.connection is not None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
        super().onStop()


class StoresTwice(LineReceiver):
    """Stores each record twice."""

    def take(self, line: str) -> None:
        self.store(line)
        self.store(line)


class LosesBuffer(LineReceiver):
    """Collects lines for 5 s before it stores them, and forgets at its stop what it has collected."""

    def receive(self) -> None:
        self.collected: list[str] = []
        super().receive()

    def take(self, line: str) -> None:
        if not self.collected:
            timer = threading.Timer(5, self.flush)
            timer.daemon = True
            timer.start()
        self.collected.append(line)

    def flush(self) -> None:
        lines, self.collected = self.collected, []
        with suppress(ReceiverStoppedError):
            self.store_all(lines)


class StartsOnce(LineReceiver):
    """Starts only where it never ran before."""

    def __init__(self, feeder: TcpFeeder) -> None:
        super().__init__(feeder)
        self.mark = Path(tempfile.gettempdir()) / f"started-{os.getpid()}-{self.address[1]}"

    def onStart(self) -> None:
        with self.mark.open("x"):
            super().onStart()


class KillsOthers(LineReceiver):
    """Kills the processes of other receivers on its executor at its hundredth record."""

    taken = 0

    def take(self, line: str) -> None:
        self.taken += 1
        if self.taken == 100:
            for process in psutil.Process(os.getppid()).children():
                # A receiver's process serves blocks; the workers of batches listen on no port.
                listens = any(socket.status == psutil.CONN_LISTEN for socket in process.net_connections("tcp"))
                if process.pid != os.getpid() and listens:
                    os.kill(process.pid, signal.SIGKILL)
        self.store(line)


class LoadsAllPlugins(LineReceiver):
    """Imports every installed plugin itself."""

    def onStart(self) -> None:
        for entry_point in importlib.metadata.entry_points(group="penstock"):
            entry_point.load()
        super().onStart()


def _mutant(
    check: str,
    words: str,
    make: Any,
    *also: str,
    because: str = "",
    defect: str = "",
    scale: float = 1.0,
    **extra: Any,
) -> Mutant:
    return Mutant(
        check=check,
        words=words,
        kind="receiver",
        make=make,
        feeder=TcpFeeder,
        also=also,
        because=because,
        defect=defect,
        scale=scale,
        extra={"live": True, **extra},
    )


LIVE_MUTANTS = [
    _mutant("XX-01", "too often", StoresTwice, "XX-03", because="it counts records, too"),
    _mutant(
        "XX-02",
        "unknown receiver 'nowhere'",
        LineReceiver,
        "XX-05",
        "XX-06",
        because="all three run one program",
        defect="Is not installed under its name.",
        name="nowhere",
    ),
    _mutant("XX-03", "the output lacks 200 of 400 records", LosesBuffer),
    _mutant("XX-04", "after its restart", StartsOnce, scale=0.3),
    _mutant("XX-05", "of the second stream", KillsOthers),
    _mutant(
        "XX-06",
        "the output lacks",
        LoadsAllPlugins,
        "XX-05",
        because="both run one program",
        scale=0.3,
    ),
]
