"""Hundreds of peers without the token hold connections to every port of a running program."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from tests.faults.kills.program_with_ports import TOKEN
from tests.helpers import wait_for
from tests.helpers.processes import kill, listening_ports, remaining_processes
from tests.wire.half_open import Stranger

pytestmark = [pytest.mark.spark, pytest.mark.programs]

HALF_OPEN, SILENT = 200, 50
# A stop without strangers takes about a second. Its deadline is that of a graceful stop, and 10 s after it per port.
STOP_S = 15


class Strangers:
    """Connections to a port, each of which is opened again when the program closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._held = [self._connect(calls=number < HALF_OPEN) for number in range(HALF_OPEN + SILENT)]
        #: How many the program has closed.
        self.closed = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._reconnect)
        self._thread.start()

    def _connect(self, *, calls: bool) -> tuple[Stranger | None, bool]:
        try:
            return Stranger(self._port, calls=calls), calls
        # The port is closed, or its backlog is full.
        except OSError:
            return None, calls

    def _reconnect(self) -> None:
        while not self._over.wait(0.1):
            for index, (stranger, calls) in enumerate(self._held):
                if stranger is None or stranger.closed.is_set():
                    if stranger is not None:
                        stranger.close()
                        self.closed += 1
                    self._held[index] = self._connect(calls=calls)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for stranger, _calls in self._held:
            if stranger is not None:
                stranger.close()


class Program:
    """The program, and the strangers at its ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = (folder / "log").open("w")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("program_with_ports.py")), str(folder), str(self.port)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        self.strangers: dict[int, Strangers] = {}
        self.url = urlsplit(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, (self.folder / "log").read_text()
        return line

    @property
    def receiver(self) -> int:
        note = self.folder / "receiver"
        return int(note.read_text()) if note.exists() else 0

    def batches(self) -> list[dict[int, int]]:
        """The records of each batch, counted by their receiver."""
        path = self.folder / "batches"
        lines = path.read_text().splitlines() if path.exists() else []
        return [dict(json.loads(line)) for line in lines]

    def await_batches(self, count: int, receiver: int) -> None:
        """Wait for batches with records of a receiver."""
        before = len(self.batches())
        wait_for(
            lambda: sum(receiver in batch for batch in self.batches()[before:]) >= count,
            f"{count} batches of receiver {receiver}",
        )

    def besiege(self, ports: list[int]) -> None:
        for port in ports:
            self.strangers[port] = Strangers(port)

    def metrics_status(self) -> int:
        request = Request(f"http://{self.url.netloc}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(request, timeout=10) as response:
            return int(response.status)

    def close(self) -> None:
        for strangers in self.strangers.values():
            strangers.close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
        # Shown if the test fails.
        print((self.folder / "log").read_text()[-5000:])


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    program.close()


@pytest.mark.timeout(620)
@pytest.mark.parametrize("how", ["gracefully", "at once"])
def test_stream_goes_on_and_stop_keeps_its_deadline(program: Program, how: str) -> None:
    wait_for(lambda: program.receiver, "a receiver")
    first = program.receiver
    program.await_batches(1, first)
    assert program.url.port is not None
    program.besiege([program.port, program.url.port, *listening_ports(first)])
    assert len(program.strangers) == 3
    wait_for(lambda: all(strangers.closed >= HALF_OPEN for strangers in program.strangers.values()), "all were closed")
    program.await_batches(5, first)
    # A new authenticated peer at the port of the driver.
    kill(first)
    wait_for(lambda: program.receiver != first, "the relaunched receiver")
    second = program.receiver
    program.await_batches(2, second)
    program.besiege(listening_ports(second))
    program.await_batches(5, second)
    assert program.metrics_status() == 200
    (program.folder / "stop").write_text(how)
    assert float(program.line()) < STOP_S
    assert program.process.wait(30) == 0
    assert remaining_processes([second]) == []
