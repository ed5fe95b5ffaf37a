"""Suspend a driver while another one takes its directory: ``python -m benchmarks.two_drivers [--rounds 10]``.

The program and the source are those of ``benchmarks.crash``. In each round the driver, in every second round with
its JVM and its workers, is suspended (SIGSTOP) at a random moment. A second driver is started on the same directory.
When a record was acknowledged through it, the first driver continues (SIGCONT). It must stop with an error that names
the second one. At the end, every acknowledged record must be in a batch of a driver that owned the directory, and
batches, states and windows must be right.

A driver that was suspended during a write holds the lock of the directory: then the second one must refuse to start,
and the first one continues.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks import counted_outputs
from benchmarks.burners import start_burners
from benchmarks.counting_program import launch, make_folder, stop
from benchmarks.numbered_source import Source, write_files
from benchmarks.processes import ends_on_sigterm

# The longest wait for one event: a driver that starts, acknowledges or ends, on a busy machine.
DEADLINE_S = 180
TAKEN_OVER = "was taken over by another driver"
REFUSED = "is being changed by another driver"


class FencedSource(Source):
    """A source that knows which driver acknowledged, and what drivers without a claim did."""

    def __init__(self) -> None:
        super().__init__()
        #: The number of acknowledged records by driver.
        self.by_driver: Counter[str] = Counter()
        #: When each driver that has lost its claim continued, monotonic; and what was sent and acknowledged since.
        self.resumed: dict[str, float] = {}
        self.late: list[int] = []

    def note(self, numbers: list[int], answer: list[str], sent: float) -> None:
        super().note(numbers, answer, sent)
        driver = answer[1]
        with self.lock:
            self.by_driver[driver] += len(numbers)
            if sent > self.resumed.get(driver, math.inf):
                self.late += numbers


class Driver:
    """A driver that was launched; ``name`` is in the acknowledgements of its receivers."""

    def __init__(self, name: str, folder: Path, source: FencedSource, interval_s: float) -> None:
        self.name = name
        self._folder = folder
        self._source = source
        self.log = folder / f"log-{name}"
        self.process = launch(folder, source.port, interval_s, log=self.log.name, environment={"DRIVER": name})

    def await_acknowledgement(self) -> bool:
        """Wait until a record is acknowledged through this driver; return false if it refused to start."""
        before = self._source.by_driver[self.name]
        deadline = time.monotonic() + DEADLINE_S
        while self._source.by_driver[self.name] == before:
            if self.process.poll() is not None:
                if REFUSED in self.log.read_text():
                    return False
                raise SystemExit(f"FAILED: driver {self.name} ended; its log is {self.log}")
            if time.monotonic() > deadline:
                raise SystemExit(f"FAILED: driver {self.name} acknowledges nothing; its log is {self.log}")
            time.sleep(0.02)
        return True

    def signal_all(self, number: signal.Signals, *, whole: bool) -> None:
        """Send a signal to the driver, and with ``whole`` to its JVM and its workers, too."""
        process = psutil.Process(self.process.pid)
        for member in [process, *(process.children(recursive=True) if whole else ())]:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(number)

    def outputs(self) -> set[Path]:
        """The files that this driver has written."""
        return set((self._folder / "out").glob(f"*-{self.process.pid}"))

    def await_end(self, successor: Driver) -> float:
        """Wait until the driver has stopped because of its successor; return how many seconds it took."""
        began = time.monotonic()
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"FAILED: driver {self.name} continues without a claim; its log is {self.log}") from None
        text = self.log.read_text()
        if code == 0 or TAKEN_OVER not in text or f"process {successor.process.pid} " not in text:
            raise SystemExit(f"FAILED: driver {self.name} ended with {code}; its log is {self.log}")
        return time.monotonic() - began


def play(number: int, owner: Driver, folder: Path, source: FencedSource, interval_s: float) -> tuple[Driver, int]:
    """One round; return the owner after it, and the number of files that the other one wrote without a claim."""
    whole = number % 2 == 0
    owner.await_acknowledgement()
    time.sleep(random.uniform(0.0, 3.0))
    owner.signal_all(signal.SIGSTOP, whole=whole)
    successor = Driver(str(number), folder, source, interval_s)
    started = successor.await_acknowledgement()
    written = owner.outputs()
    if started:
        source.resumed[owner.name] = time.monotonic()
    owner.signal_all(signal.SIGCONT, whole=whole)
    what = "driver, JVM and workers" if whole else "driver"
    if not started:
        print(f"round {number}: {what} suspended during a write: the second driver refused to start", flush=True)
        return owner, 0
    took_s = owner.await_end(successor)
    late = owner.outputs() - written
    for path in late:
        path.unlink()
    print(f"round {number}: {what} suspended; stopped {took_s:.1f} s after it continued", flush=True)
    return successor, len(late)


def main() -> None:
    """Play the rounds, stop the last owner, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="how often a driver is suspended")
    parser.add_argument("--load", type=int, default=0, help="processes that keep a core busy meanwhile")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    options = parser.parse_args()
    folder = make_folder("two-drivers")
    source = FencedSource()
    threading.Thread(target=write_files, args=(folder / "in", source.paused), daemon=True).start()
    burners = start_burners(options.load)
    owner, without_claim = Driver("0", folder, source, options.interval), 0
    for number in range(1, options.rounds + 1):
        owner, late = play(number, owner, folder, source, options.interval)
        without_claim += late
    owner.await_acknowledgement()
    time.sleep(3)
    source.paused.set()
    for burner in burners:
        burner.kill()
    code, stopped_ms = stop(folder, owner.process)
    interval_ms = round(options.interval * 1000)
    times = counted_outputs.batch_times(folder, interval_ms, stopped_ms)
    results: dict[str, Any] = {
        "rounds": options.rounds,
        "acknowledged without a claim": len(source.late),
        "files of outputs without a claim": without_claim,
        "exit code of the last driver": code,
    }
    results |= counted_outputs.check(folder, source, times, interval_ms)
    for name, value in results.items():
        print(f"{name}: {value}")
    if code or any(results[name] for name in ("acknowledged without a claim", *counted_outputs.FAULTS)):
        raise SystemExit(f"FAILED; all of it is in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    with ends_on_sigterm():
        main()
