"""Kill the driver again and again, and count what is lost: ``python -m benchmarks.crash [--kills 20] [--cores 2 6]``.

A source on this machine sends numbered records and waits for their acknowledgements. The program of
``counting_program.py`` receives them. It is killed (-9) at random moments and restarted each time. The moments are
counted from the launch (it dies while it starts), from its start, from the first record that a run acknowledges, and
from a SIGTERM (it dies while it stops gracefully). On average at every third kill its JVM dies instead, and the program
must notice and exit. At the end it is stopped gracefully and its outputs are compared: every batch time is there, every
acknowledged record is in some batch, and states and windows are what the batches say they must be. A record that is in
two batches must have been sent twice, because its acknowledgement was cut off by a kill.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import counted_outputs
from benchmarks.counting_program import await_start, has_started, launch, make_folder, stop
from benchmarks.numbered_source import Source, write_files
from benchmarks.processes import ends_on_sigterm

JVM_SHARE = 1 / 3
# Events from which the moment of a kill is counted: how many kills out of ten, and the longest wait after the event.
MOMENTS = {
    "the launch": (2, 8.0),
    "the start": (3, 10.0),
    "the first acknowledgement": (3, 10.0),
    "SIGTERM": (2, 3.0),
}
# With fewer acknowledged records per kill, the run tests too little.
LEAST_RECORDS = 20
# Maximum time for a program to notice that its JVM is dead, and to exit.
MOURNING_S = 60
# The line of the log about a stop whose time was over before all batches were done.
LEFT_BEHIND = "stopped with unprocessed input"


class Kill(NamedTuple):
    """A planned kill.

    Attributes:
        since: the event from which its moment is counted.
        after_s: seconds after that event.
        of_jvm: whether the JVM is killed instead of the driver.
    """

    since: str
    after_s: float
    of_jvm: bool


def drawn(rng: random.Random, count: int) -> list[Kill]:
    """The kills of a run."""
    kills = []
    for _ in range(count):
        (since,) = rng.choices(list(MOMENTS), [share for share, _ in MOMENTS.values()])
        after_s, of_jvm = rng.uniform(0.0, MOMENTS[since][1]), rng.random() < JVM_SHARE
        # While the program starts there may be none; while it stops it may have ended already.
        kills.append(Kill(since, after_s, of_jvm and since in ("the start", "the first acknowledgement")))
    return kills


def kill(kill: Kill, folder: Path, process: subprocess.Popen[bytes], source: Source, killed_at: list[float]) -> str:
    """Let the launched program run until the planned moment, and kill it; return a description.

    ``killed_at`` gets the moment, monotonic.
    """
    if kill.since != "the launch":
        await_start(folder, process)
    if kill.since in ("the first acknowledgement", "SIGTERM"):
        source.await_acknowledgement()
    if kill.since == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    time.sleep(kill.after_s)
    killed_at.append(time.monotonic())
    if kill.of_jvm:
        return f"its JVM; the program ended {kill_jvm(process):.1f} s later"
    # A program that was asked to stop may have ended already.
    code = process.poll()
    if code is not None:
        if code != 0 or kill.since != "SIGTERM":
            raise SystemExit(f"FAILED: the program ended by itself with {code}; its log is {folder / 'log'}")
        return "nothing, it had stopped"
    what = "the driver" if has_started(folder, process) else "the driver, which had not started"
    process.kill()
    process.wait()
    return what


def jvm_of(process: subprocess.Popen[bytes]) -> int:
    """The process of a program's JVM."""
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return int(pid)
    raise SystemExit(f"the program {process.pid} has no JVM")


def kill_jvm(process: subprocess.Popen[bytes]) -> float:
    """Kill the JVM; return after how many seconds the program ended with an error, as it must."""
    began = time.monotonic()
    os.kill(jvm_of(process), signal.SIGKILL)
    try:
        code = process.wait(MOURNING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise SystemExit(f"FAILED: {MOURNING_S} s after its JVM was killed, the program lives") from None
    if code == 0:
        raise SystemExit("FAILED: a program whose JVM was killed ended as if all were well")
    return time.monotonic() - began


def main() -> None:
    """Kill, start, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how often the driver is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    parser.add_argument("--cores", type=int, nargs="+", default=[4], help="of the launches, in turn")
    parser.add_argument("--conf", action="append", default=[], help="of every launch: KEY=VALUE")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    folder = make_folder("crash")
    source = Source(options.seed)
    threading.Thread(target=write_files, args=(folder / "in", source.paused), daemon=True).start()
    began = time.monotonic()
    kills = drawn(rng, options.kills)
    killed_at: list[float] = []
    cores = itertools.cycle(options.cores)

    def launched() -> subprocess.Popen[bytes]:
        return launch(folder, source.port, options.interval, cores=next(cores), conf=options.conf)

    for number, kill_plan in enumerate(kills, 1):
        what = kill(kill_plan, folder, launched(), source, killed_at)
        print(f"kill {number} of {len(kills)}: {kill_plan.after_s:.2f} s after {kill_plan.since}: {what}", flush=True)
    process = launched()
    await_start(folder, process)
    source.await_acknowledgement()
    time.sleep(5)
    source.paused.set()
    code, stopped_ms = stop(folder, process)
    if any(LEFT_BEHIND in line and "graceful=True" in line for line in (folder / "log").read_text().splitlines()):
        raise SystemExit(f"FAILED: batches were left when the stop timed out: set a longer --interval. See {folder}")
    results: dict[str, Any] = {"kills": len(kills), "of them of the JVM": sum(kill_plan.of_jvm for kill_plan in kills)}
    results |= {f"of them after {since}": sum(kill_plan.since == since for kill_plan in kills) for since in MOMENTS}
    results["seed"] = options.seed
    results["exit code of the last run"] = code
    source.shutdown()
    source.server_close()
    interval_ms = round(options.interval * 1000)
    times = counted_outputs.batch_times(folder, interval_ms, stopped_ms)
    results |= counted_outputs.check(folder, source, times, interval_ms)
    results["seconds"] = round(time.monotonic() - began)
    for name, value in results.items():
        print(f"{name}: {value}")
    print(*counted_outputs.describe_resends(folder, source, killed_at), sep="\n")
    few = len(source.acknowledged) < LEAST_RECORDS * max(len(kills), 1)
    if few:
        print(f"too few records were acknowledged, at least {LEAST_RECORDS} a kill are wanted")
    if not results["lines of files"]:
        print("no file was read")
    if few or not results["lines of files"] or code != 0 or any(results[name] for name in counted_outputs.FAULTS):
        raise SystemExit(f"FAILED; all of it is in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    with ends_on_sigterm():
        main()
