"""A sink fails under load while the driver is killed: ``python -m benchmarks.failing_sink [--policy retry]``.

The program and the source are those of ``benchmarks/crash.py``. After some batches the sink of all outputs but one goes
down. Meanwhile the driver, or on average at every third kill its JVM, is killed (-9) at random moments and restarted.
Then the sink comes back. With the policy ``continue`` the program is stopped gracefully and started once more, because
only a restart runs its failed batches again. At the end every acknowledged record must be in a batch, and states and
windows must be what the batches say they must be. The order must be the documented one:

- within a run, each output writes its batches in the order of their times; only failed operations are repeated, and
  only by the policy ``retry``;
- a restart repeats batches with a failed output, those that had not completed, and no others.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import counted_outputs
from benchmarks.burners import start_burners
from benchmarks.counting_program import INDEPENDENT, LIGHT_OUTPUTS, OUTPUTS, await_start, launch, make_folder, stop
from benchmarks.crash import JVM_SHARE, kill_jvm
from benchmarks.numbered_source import Source, write_files
from benchmarks.processes import ends_on_sigterm

# Batches before the outage.
BATCHES_BEFORE = 5
# Maximum time for all failed batches to run again after the outage.
RECOVERY_S = 400
# A batch whose completion is in no checkpoint runs again. Checkpoints are written at once, two per batch; on a busy
# machine a few of them may wait.
SAVED_S = 10.0
#: The counts that must be 0, in addition to those of the outputs.
FAULTS = ("written out of order", "repeated although written", "repeated although completed", "never written")


class Attempt(NamedTuple):
    """An attempt to write a batch: a line of the file ``attempts``."""

    pid: int
    output: str
    batch_ms: int
    is_written: bool
    at_s: float


def attempts(folder: Path) -> list[Attempt]:
    """All attempts of all runs so far, in their order."""
    path = folder / "attempts"
    return [Attempt(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def unwritten(entries: Iterable[Attempt]) -> set[tuple[str, int]]:
    """The outputs and batches that were attempted and never written."""
    entries = list(entries)
    written = {(entry.output, entry.batch_ms) for entry in entries if entry.is_written}
    return {(entry.output, entry.batch_ms) for entry in entries} - written


def check_order(entries: Sequence[Attempt], policy: str, outputs: Sequence[str]) -> dict[str, Any]:
    """Compare the order of all attempts of some outputs with the documented one; return counts by name."""
    out_of_order = again_in_run = again_after_completion = restart_repeats = retries = 0
    runs: dict[int, list[Attempt]] = {}
    for entry in entries:
        runs.setdefault(entry.pid, []).append(entry)
    #: When each batch was completely written, by an earlier run; and how long before the end of that run.
    completed: dict[int, float] = {}
    for run in runs.values():
        latest: dict[str, int] = {}
        done: dict[tuple[str, int], bool] = {}
        for entry in run:
            key = entry.output, entry.batch_ms
            if key in done:
                retries += 1
                again_in_run += done[key] or policy != "retry"
            else:
                out_of_order += entry.batch_ms < latest.get(entry.output, 0)
                latest[entry.output] = max(entry.batch_ms, latest.get(entry.output, 0))
            done[key] = entry.is_written
        again = {batch_ms for _output, batch_ms in done} & completed.keys()
        restart_repeats += len(again)
        again_after_completion += sum(completed[batch_ms] > SAVED_S for batch_ms in again)
        ended_s = run[-1].at_s
        for batch_ms in {batch_ms for _output, batch_ms in done}:
            if all(done.get((output, batch_ms)) for output in outputs):
                at_s = max(entry.at_s for entry in run if entry.batch_ms == batch_ms)
                completed[batch_ms] = ended_s - at_s
            else:
                completed.pop(batch_ms, None)
    return {
        "runs": len(runs),
        "attempts": len(entries),
        "attempts that failed": sum(not entry.is_written for entry in entries),
        "failed operations repeated within a run": retries,
        "completed batches repeated after a kill": restart_repeats,
        "written out of order": out_of_order,
        "repeated although written": again_in_run,
        "repeated although completed": again_after_completion,
        "never written": len(unwritten(entries)),
    }


def await_written(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until no attempted batch is without its outputs."""
    deadline = time.monotonic() + RECOVERY_S
    while left := unwritten(attempts(folder)):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"FAILED: {len(left)} outputs are not written again; the log is {folder / 'log'}")
        time.sleep(0.2)


def await_batches(folder: Path, process: subprocess.Popen[bytes], count: int) -> None:
    """Wait until this many batches were written."""
    deadline = time.monotonic() + RECOVERY_S
    while Counter(entry.output for entry in attempts(folder))[INDEPENDENT] < count:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"FAILED: no batches; the log is {folder / 'log'}")
        time.sleep(0.1)


def main() -> None:
    """Fail, kill, start, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=("continue", "retry"), default="continue", help="what failed batches do")
    parser.add_argument("--outage", type=float, default=120.0, help="minimum seconds for which the sink is down")
    parser.add_argument("--kills", type=int, default=5, help="how often the driver is killed meanwhile")
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    parser.add_argument("--load", type=int, default=0, help="processes that keep a core busy meanwhile")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    parser.add_argument("--full", action="store_true", help="with mapWithState and DataFrames, too")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    folder = make_folder("failing-sink")
    source = Source(options.seed)
    threading.Thread(target=write_files, args=(folder / "in", source.paused), daemon=True).start()
    burners = start_burners(options.load)
    began = time.monotonic()
    killed_at: list[float] = []
    outputs = OUTPUTS if options.full else LIGHT_OUTPUTS

    def launched() -> subprocess.Popen[bytes]:
        return launch(folder, source.port, options.interval, options.policy, outputs=outputs)

    process = launched()
    await_batches(folder, process, BATCHES_BEFORE)
    (folder / "sink-is-down").touch()
    down_s = time.monotonic()
    print(f"the sink is down after {down_s - began:.1f} s", flush=True)
    for number in range(1, options.kills + 1):
        await_start(folder, process)
        after_s = rng.uniform(1.0, 2 * options.outage / (options.kills + 1))
        of_jvm = rng.random() < JVM_SHARE
        time.sleep(after_s)
        killed_at.append(time.monotonic())
        if of_jvm:
            kill_jvm(process)
        else:
            process.kill()
            process.wait()
        failed = len({batch_ms for _output, batch_ms in unwritten(attempts(folder))})
        what = "the JVM" if of_jvm else "the driver"
        print(f"kill {number}: {what}, {after_s:.1f} s after its start, {failed} batches failed", flush=True)
        process = launched()
    await_start(folder, process)
    source.await_acknowledgement()
    time.sleep(max(down_s + options.outage - time.monotonic(), 0))
    failed = len({batch_ms for _output, batch_ms in unwritten(attempts(folder))})
    (folder / "sink-is-down").unlink()
    print(f"the sink is back after {time.monotonic() - down_s:.1f} s, {failed} batches failed", flush=True)
    if options.policy == "continue":
        code, _stopped_ms = stop(folder, process)
        if code:
            raise SystemExit(f"FAILED: the program ended with {code}; its log is {folder / 'log'}")
        process = launched()
        await_start(folder, process)
    await_written(folder, process)
    written_s = time.monotonic()
    source.await_acknowledgement()
    source.paused.set()
    for burner in burners:
        burner.kill()
    code, stopped_ms = stop(folder, process)
    results: dict[str, Any] = {"policy": options.policy, "seed": options.seed, "kills": options.kills}
    results["seconds until all was written"] = round(written_s - began)
    results["exit code of the last run"] = code
    interval_ms = round(options.interval * 1000)
    times = counted_outputs.batch_times(folder, interval_ms, stopped_ms)
    results |= counted_outputs.check(folder, source, times, interval_ms, outputs)
    entries = attempts(folder)
    results |= check_order(entries, options.policy, outputs)
    results[f"batches of {INDEPENDENT} written more than once"] = sum(
        count > 1 for count in Counter(entry.batch_ms for entry in entries if entry.output == INDEPENDENT).values()
    )
    for name, value in results.items():
        print(f"{name}: {value}")
    print(*counted_outputs.describe_resends(folder, source, killed_at), sep="\n")
    if code or any(results[name] for name in (*counted_outputs.FAULTS, *FAULTS)):
        raise SystemExit(f"FAILED; all of it is in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    with ends_on_sigterm():
        main()
