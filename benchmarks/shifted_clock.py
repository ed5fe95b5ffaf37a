"""Set the wall clock of a running program forward and back: ``python -m benchmarks.shifted_clock [--minute 60]``.

The program and the source are those of ``benchmarks/crash.py``. A preloaded library shifts the wall clock of the
driver, its JVM and its workers, and the modification times of files. The steps are: an hour back; a kill (-9) and a
restart; an hour forward to the right time; another hour forward; a kill and a restart; a day forward; several times a
second back, each after a minute. Then every batch time must be there once, in order, and no time of a step forward.
There must be no more batches than intervals have elapsed, one line of the log for each step, every acknowledged record
in some batch, and states and windows that are right.
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import counted_outputs
from benchmarks.counting_program import LIGHT_OUTPUTS, await_start, launch, make_folder, stop
from benchmarks.failing_sink import Attempt, attempts
from benchmarks.numbered_source import Source, write_files
from benchmarks.processes import ends_on_sigterm
from benchmarks.stepped_clock import SteppedClock

HOUR_S, DAY_S = 3_600, 86_400
# Batches that are written after each step.
BATCHES = 4
# The longest wait for them, on a busy machine.
DEADLINE_S = 180
#: The counts that must be 0.
FAULTS = ("batch times out of order", "batch times too early or late", "batches too many", "steps without a log line")


class Program:
    """The runs of the program, and their clock."""

    def __init__(self, folder: Path, source: Source, clock: SteppedClock, interval_s: float) -> None:
        self.folder = folder
        self.clock = clock
        self._source = source
        self._interval_s = interval_s
        #: What was done, at which monotonic time, and the shifted time after it in ms.
        self.done: list[tuple[str, float, int]] = []
        self.process = self._launch()

    def _launch(self) -> Any:
        process = launch(
            self.folder,
            self._source.port,
            self._interval_s,
            environment=self.clock.environment,
            outputs=LIGHT_OUTPUTS,
        )
        await_start(self.folder, process)
        self.done.append(("start", time.monotonic(), self.now_ms()))
        return process

    def now_ms(self) -> int:
        """The shifted time."""
        return round((time.time() + self.clock.offset_s) * 1000)

    def written(self) -> list[Attempt]:
        """The attempts of the first output, in their order."""
        return [entry for entry in attempts(self.folder) if entry.output == "records"]

    def await_batches(self, count: int = BATCHES) -> None:
        """Wait until further batches are written and further records acknowledged."""
        before, deadline = len(self.written()), time.monotonic() + DEADLINE_S
        while len(self.written()) < before + count:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"FAILED: no batches after {self.done[-1][0]}; all of it is in {self.folder}")
            time.sleep(0.05)
        self._source.await_acknowledgement()

    def step(self, by_s: int) -> None:
        """Set the clock, and wait for batches."""
        self.clock.step(by_s)
        self.done.append((f"{by_s:+} s", time.monotonic(), self.now_ms()))
        self.await_batches()
        self._report()

    def restart(self) -> None:
        """Kill the driver (-9), and start it again."""
        self.process.kill()
        self.process.wait()
        self.done.append(("kill", time.monotonic(), self.now_ms()))
        self.process = self._launch()
        self.await_batches()
        self._report()

    def _report(self) -> None:
        what, at_s, _now_ms = self.done[-1]
        newest = self.written()[-1]
        ahead_s = (newest.batch_ms - self.now_ms()) / 1000
        took_s = time.monotonic() - at_s
        print(f"{what}: {BATCHES} batches in {took_s:.1f} s, the last one {ahead_s:+.1f} s from the clock", flush=True)


def check(program: Program, interval_ms: int, began_s: float) -> dict[str, Any]:
    """Compare batch times and log with what was done; return counts by name."""
    runs: dict[int, list[int]] = {}
    for entry in program.written():
        runs.setdefault(entry.pid, []).append(entry.batch_ms)
    # Batches of a run that was killed may run again; within a run none does.
    out_of_order = sum(later <= earlier for run in runs.values() for earlier, later in pairwise(run))
    times = list(dict.fromkeys(time_ms for run in runs.values() for time_ms in run))
    out_of_order += sum(later < earlier for earlier, later in pairwise(times))
    gaps = [(earlier, later) for earlier, later in pairwise(times) if later - earlier != interval_ms]
    # A gap ends at the first batch time after the clock of a step forward.
    forward = [now_ms for what, _at_s, now_ms in program.done if what.startswith("+")]
    limit_ms = 3 * interval_ms
    wrong_gaps = [gap for gap in gaps if not any(0 < gap[1] - now_ms <= limit_ms for now_ms in forward)]
    log = (program.folder / "log").read_text().splitlines()
    steps = [what for what, _at_s, _now_ms in program.done if what.endswith("s")]
    logged = [line for line in log if "wall clock stepped" in line]
    elapsed = round((time.monotonic() - began_s) * 1000) // interval_ms
    return {
        "batch times": len(times),
        "runs of batches": sum(map(len, runs.values())),
        "times skipped by steps forward": len(gaps),
        "intervals elapsed": elapsed,
        "steps": len(steps),
        "lines of the log about steps": len(logged),
        "batch times out of order": out_of_order,
        "batch times too early or late": len(wrong_gaps),
        "batches too many": max(len(times) - elapsed - 2, 0),
        "steps without a log line": abs(len(steps) - len(logged)),
    }


def main() -> None:
    """Step, kill, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minute", type=float, default=60.0, help="seconds between two small steps")
    parser.add_argument("--small", type=int, default=4, help="how many small steps")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    options = parser.parse_args()
    folder = make_folder("shifted-clock")
    source = Source(1)
    clock = SteppedClock(folder)
    arguments = (folder / "in", source.paused, lambda: clock.offset_s)
    threading.Thread(target=write_files, args=arguments, daemon=True).start()
    began_s = time.monotonic()
    program = Program(folder, source, clock, options.interval)
    program.await_batches()
    program.step(-HOUR_S)
    program.restart()
    program.step(HOUR_S)
    program.step(HOUR_S)
    program.restart()
    program.step(DAY_S)
    for _ in range(options.small):
        began_minute_s = time.monotonic()
        program.step(-1)
        time.sleep(max(options.minute - (time.monotonic() - began_minute_s), 0))
    source.await_acknowledgement()
    source.paused.set()
    code, _stopped_ms = stop(folder, program.process)
    interval_ms = round(options.interval * 1000)
    results = check(program, interval_ms, began_s)
    times = sorted({entry.batch_ms for entry in program.written()})
    results |= {
        "exit code of the last run": code,
        **counted_outputs.check(folder, source, times, interval_ms, LIGHT_OUTPUTS),
    }
    for name, value in results.items():
        print(f"{name}: {value}")
    if code or any(results[name] for name in (*counted_outputs.FAULTS, *FAULTS)):
        raise SystemExit(f"FAILED; all of it is in {folder}")
    clock.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    with ends_on_sigterm():
        main()
