"""The timer of a real process whose wall clock is set, and of one that is suspended."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.stepped_clock import SteppedClock, compiler

PERIOD_MS = 50
DAY_S = 86_400

PROGRAM = f"""
import json, threading
from penstock.runtime.batch_clock import BatchClock
from penstock.runtime.clock import SystemClock
from penstock.runtime.recurring_timer import RecurringTimer

def put(*entry):
    print(json.dumps(entry), flush=True)

clock = BatchClock(SystemClock(), lambda step_ms, ahead_ms: put("step", step_ms, ahead_ms))
tick = lambda time_ms: put("tick", time_ms, SystemClock().now_ms())
timer = RecurringTimer(clock, {PERIOD_MS}, tick, "test", print, on_missed=lambda count: put("missed", count))
timer.start(timer.start_time_ms())
threading.Event().wait()
"""


class Ticking:
    """The process, and what it has printed: entries of a name and numbers."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.entries: list[list[Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        command = [sys.executable, "-c", PROGRAM]
        self.process = subprocess.Popen(command, env=clock.environment, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def close(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self._reader.join(30)
        self.process.stdout.close()
        self.clock.close()

    def ticks(self, count: int) -> list[list[Any]]:
        """The next ticks."""
        found: list[list[Any]] = []
        while len(found) < count:
            self.entries.append(json.loads(self._lines.get(timeout=60)))
            if self.entries[-1][0] == "tick":
                found.append(self.entries[-1])
        return found

    def step(self, offset_s: int) -> list[list[Any]]:
        """Set the clock, and return the ticks from the one before the timer has noticed on."""
        steps = len(self.of("step"))
        self.clock.set(offset_s)
        ticks = self.ticks(1)
        while len(self.of("step")) == steps:
            ticks += self.ticks(1)
        return ticks + self.ticks(10)

    def of(self, name: str) -> list[list[Any]]:
        return [entry for entry in self.entries if entry[0] == name]


@pytest.fixture
def ticking(tmp_path: Path) -> Iterator[Ticking]:
    if compiler() is None:
        pytest.skip("no C compiler: the wall clock of a process cannot be shifted")
    ticking = Ticking(SteppedClock(tmp_path))
    ticking.ticks(3)
    yield ticking
    ticking.close()


def test_ticks_continue_whenever_the_clock_is_set(ticking: Ticking) -> None:
    for offset_s in (-3600, -3601, -DAY_S, 0, DAY_S, DAY_S + 1):
        began_s = time.monotonic()
        ticks = ticking.step(offset_s)
        assert time.monotonic() - began_s < 30
        # No storm: the ticks of the skipped day would be 1.7 million.
        assert len(ticks) < 100
    times = [tick[1] for tick in ticking.of("tick")]
    assert times == sorted(set(times))
    assert all(time_ms % PERIOD_MS == 0 for time_ms in times)
    steps = [round(step_ms / 1000) for _name, step_ms, _ahead_ms in ticking.of("step")]
    assert steps == [-3600, -1, 3601 - DAY_S, DAY_S, DAY_S, 1]
    assert [round(ahead_ms / 1000) for _name, _step_ms, ahead_ms in ticking.of("step")] == [3600, 3601, DAY_S, 0, 0, 0]
    # The lead is used up: batch times are those of the wall clock again.
    _name, time_ms, now_ms = ticking.of("tick")[-1]
    assert 0 <= now_ms - time_ms < 10_000


def test_a_suspended_process_has_missed_ticks_and_no_step(ticking: Ticking) -> None:
    ticking.process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    ticking.process.send_signal(signal.SIGCONT)
    times = [tick[1] for tick in ticking.ticks(60)]
    assert times == list(range(times[0], times[-1] + 1, PERIOD_MS))
    assert max(count for _name, count in ticking.of("missed")) >= 20
    assert ticking.of("step") == []
