"""Kill the driver again and again, and count what is lost: ``python benchmarks/crash.py [--kills 20] [--cores 2 6]``.

A source on this machine sends numbered records and waits for their acknowledgements. The program, with write-ahead logs
and checkpoints on, counts them by key, in two kinds of state and in a window; it also joins a window of the lines of
files with a table, as DataFrames. It is killed (-9) at random moments and restarted each time. The moments are counted
from the launch (it dies while it starts), from its start, from the first record that a run acknowledges, and from a
SIGTERM (it dies while it stops gracefully). On average at every third kill its JVM dies instead, and the program must
notice and exit. At the end it is stopped gracefully and its outputs are compared: every batch time is there, every
acknowledged record is in some batch, and states and windows are what the batches say they must be.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

WINDOW = 4
KEYS = 7
RECORDS_A_SEND = 20
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
# Maximum time of the last stop, which first processes the batches of all downtimes.
STOP_S = 600


# -- the source --


class Source(socketserver.ThreadingTCPServer):
    """Sends a few numbers at a time, and the next ones after their acknowledgement."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.rng = random.Random(seed)
        self.acknowledged = 0
        self.lock = threading.Lock()
        self.paused = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Connection(socketserver.StreamRequestHandler):
    server: Source

    def handle(self) -> None:
        while not self.server.paused.is_set():
            with self.server.lock:
                first = self.server.acknowledged
            numbers = range(first, first + RECORDS_A_SEND)
            try:
                self.wfile.write(json.dumps(list(numbers)).encode() + b"\n")
                answer = self.rfile.readline()
            except OSError:
                return
            if not answer:
                return
            with self.server.lock:
                self.server.acknowledged = max(self.server.acknowledged, int(answer.split()[0]))
            time.sleep(self.server.rng.uniform(0.0, 0.06))
        self.wfile.write(b"[]\n")
        self.rfile.readline()


def write_files(folder: Path, until: threading.Event) -> None:
    """Put a file of two numbers into a folder twice a second."""
    first = 0
    while not until.wait(0.5):
        (folder / ".next").write_text(f"{first}\n{first + 1}\n")
        (folder / ".next").rename(folder / f"{first}.txt")
        first += 2


# -- the program --


def program(folder: Path, port: int, interval_s: float) -> None:
    """Run until SIGTERM, from the checkpoint if there is one."""
    from pyspark import RDD, SparkConf, SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from penstock import StateSpec, StreamingContext, ThreadReceiver

    class Acknowledging(ThreadReceiver[int]):
        """Stores the numbers that the source sends, then acknowledges them."""

        def receive(self) -> None:
            while not self.isStopped():
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                        stream = connection.makefile("rwb")
                        while not self.isStopped() and (line := stream.readline()):
                            numbers = json.loads(line)
                            if numbers:
                                self.store_all(numbers)
                            acknowledged = numbers[-1] + 1 if numbers else -1
                            stream.write(f"{acknowledged} {os.environ.get('DRIVER', '')}\n".encode())
                            stream.flush()
                except OSError:
                    time.sleep(0.1)

    class Write:
        """Writes each batch of an output to a file of its own."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
            self.write(rdd.context, round(time.timestamp() * 1000), rdd.collect())

        def frame(self, df: DataFrame, batch_ms: int) -> None:
            """Write the rows of a DataFrame."""
            self.write(df.sparkSession.sparkContext, batch_ms, map(list, df.collect()))

        def write(self, sc: SparkContext, batch_ms: int, records: Iterable[Any]) -> None:
            """Write the records of a batch."""
            attempt = sc.getLocalProperty("spark.penstock.batch.attempt")
            target = folder / "out" / f"{self.name}-{batch_ms}-{attempt}-{os.getpid()}"
            partial = target.with_suffix(".partial")
            partial.write_text(json.dumps(sorted(records)))
            partial.rename(target)

    def names() -> DataFrame:
        values = ", ".join(f"({key}, 'key {key}')" for key in range(KEYS))
        return SparkSession.builder.getOrCreate().sql(f"SELECT * FROM VALUES {values} AS names(key, name)")

    def total(new: Iterable[int], old: int | None) -> int:
        return sum(new) + (old or 0)

    def count(key: str, value: int, state: Any) -> None:
        state.update((state.get() if state.exists() else 0) + value)

    def create() -> StreamingContext:
        # The master comes from the launch.
        conf = SparkConf().setAppName("crash").set("spark.ui.enabled", "false")
        conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
        conf.set("spark.streaming.receiver.writeAheadLog.enable", "true").set("spark.penstock.log.level", "INFO")
        conf.set("spark.streaming.stopGracefullyOnShutdown", "true")
        conf.set("spark.streaming.gracefulStopTimeout", f"{STOP_S}s")
        sc = SparkContext(conf=conf)
        ssc = StreamingContext(sc, interval_s)
        numbers = ssc.receiverStream(Acknowledging())
        pairs = numbers.map(lambda number: (f"key {number % KEYS}", 1))
        numbers.foreachRDD(Write("records"))
        # As many partitions as this launch has free cores; a recovered state keeps its number.
        pairs.updateStateByKey(total).checkpoint(4 * interval_s).foreachRDD(Write("updated"))
        mapped = pairs.mapWithState(StateSpec.function(count).numPartitions(2))
        mapped.checkpoint(4 * interval_s)
        mapped.stateSnapshots().foreachRDD(Write("mapped"))
        windows = pairs.reduceByKeyAndWindow(lambda a, b: a + b, None, WINDOW * interval_s, interval_s, 2)
        windows.foreachRDD(Write("window"))
        lines = ssc.textFileStream(str(folder / "in"))
        lines.foreachRDD(Write("files"))
        recent = lines.window(WINDOW * interval_s).toDF().selectExpr("value", f"cast(value AS int) % {KEYS} AS key")
        recent.join(names, "key").select("value", "name").foreachBatch(Write("frames").frame)
        return ssc

    ssc = StreamingContext.getOrCreate(str(folder / "checkpoint"), create)
    ssc.sparkContext.setLogLevel("OFF")
    ssc.start()
    (folder / f"started-{os.getpid()}").touch()
    ssc.awaitTermination()


# -- the killing and the counting --


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


def launch(folder: Path, port: int, interval_s: float, cores: int, conf: Iterable[str]) -> subprocess.Popen[bytes]:
    """Launch the program on a number of cores, with further configuration as ``KEY=VALUE``."""
    arguments = " ".join(["--master", f"local[{cores}]", *(f"--conf {entry}" for entry in conf), "pyspark-shell"])
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, __file__, "--program", str(folder), "--port", str(port), "--interval", str(interval_s)],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": arguments},
        )


def has_started(folder: Path, process: subprocess.Popen[bytes]) -> bool:
    """Whether the program's context has started."""
    return (folder / f"started-{process.pid}").exists()


def await_start(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the program's context has started."""
    deadline = time.monotonic() + 120
    while not has_started(folder, process):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"FAILED: the program did not start; its log is {folder / 'log'}")
        time.sleep(0.05)


def kill(kill: Kill, folder: Path, process: subprocess.Popen[bytes], source: Source) -> str:
    """Let the launched program run until the planned moment, and kill it; return a description."""
    if kill.since != "the launch":
        await_start(folder, process)
    if kill.since in ("the first acknowledgement", "SIGTERM"):
        await_acknowledgement(source)
    if kill.since == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    time.sleep(kill.after_s)
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


def await_acknowledgement(source: Source) -> None:
    """Wait until the source receives another acknowledgement."""
    before, deadline = source.acknowledged, time.monotonic() + 120
    while source.acknowledged == before:
        if time.monotonic() > deadline:
            raise SystemExit("FAILED: no record is acknowledged")
        time.sleep(0.01)


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


def outputs(folder: Path, name: str) -> tuple[dict[int, Any], list[str]]:
    """The batches of an output by time, and the batches that differ from an earlier run of the same batch."""
    batches: dict[int, Any] = {}
    differ = []
    for path in sorted((folder / "out").glob(f"{name}-*[0-9]"), key=lambda path: path.stat().st_mtime_ns):
        batch_ms = int(path.name.split("-")[1])
        records = json.loads(path.read_text())
        if batch_ms in batches and batches[batch_ms] != records:
            differ.append(f"{name} of {batch_ms}")
        batches[batch_ms] = records
    return batches, differ


def check(folder: Path, acknowledged: int, stopped_ms: int, interval_ms: int) -> dict[str, Any]:
    """Compare the outputs with each other and with the acknowledged numbers, at least up to the stop."""
    records, differ = outputs(folder, "records")
    times = range(min(records), max(*records, stopped_ms) + 1, interval_ms)
    missing = [time for time in times if time not in records]
    seen = Counter(number for batch in records.values() for number in batch)
    keys = Counter[str]()
    wrong: list[str] = []
    results = {}
    files, again = outputs(folder, "files")
    differ += again
    for name in ("updated", "mapped", "window", "frames"):
        results[name], again = outputs(folder, name)
        differ += again
    for time_ms in times:
        keys.update(f"key {number % KEYS}" for number in records.get(time_ms, ()))
        window = Counter(
            f"key {number % KEYS}" for back in range(WINDOW) for number in records.get(time_ms - back * interval_ms, ())
        )
        expected = {"updated": keys, "mapped": keys, "window": window}
        recent = [line for back in range(WINDOW) for line in files.get(time_ms - back * interval_ms, ())]
        right = {name: sorted([key, count] for key, count in counts.items()) for name, counts in expected.items()}
        right["frames"] = sorted([line, f"key {int(line) % KEYS}"] for line in recent)
        wrong += [f"{name} of {time_ms}" for name, result in results.items() if result.get(time_ms) != right[name]]
    return {
        "acknowledged records": acknowledged,
        "lost": sum(number not in seen for number in range(acknowledged)),
        "more than once": sum(count > 1 for count in seen.values()),
        "batches": len(times),
        "batches missing": len(missing),
        "batches that differ when run again": len(differ),
        "wrong states and windows": len(wrong),
        "first of them": [*wrong, *differ][:5],
        "lines of files": sum(map(len, files.values())),
        "files of outputs": sum(1 for _ in (folder / "out").iterdir()),
    }


def main() -> None:
    """Kill, start, count."""
    from penstock_cli.java import ensure_java

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how often the driver is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    parser.add_argument("--cores", type=int, nargs="+", default=[4], help="of the launches, in turn")
    parser.add_argument("--conf", action="append", default=[], help="of every launch: KEY=VALUE")
    parser.add_argument("--program", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    ensure_java()
    if options.program:
        program(options.program, options.port, options.interval)
        return
    rng = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="penstock-crash-"))
    (folder / "out").mkdir()
    (folder / "in").mkdir()
    (folder / "log").touch()
    source = Source(options.seed)
    port = source.server_address[1]
    threading.Thread(target=write_files, args=(folder / "in", source.paused), daemon=True).start()
    began = time.monotonic()
    kills = drawn(rng, options.kills)
    cores = itertools.cycle(options.cores)

    def launched() -> subprocess.Popen[bytes]:
        return launch(folder, port, options.interval, next(cores), options.conf)

    for number, kill_plan in enumerate(kills, 1):
        what = kill(kill_plan, folder, launched(), source)
        print(f"kill {number} of {len(kills)}: {kill_plan.after_s:.2f} s after {kill_plan.since}: {what}", flush=True)
    process = launched()
    await_start(folder, process)
    await_acknowledgement(source)
    time.sleep(5)
    source.paused.set()
    process.send_signal(signal.SIGTERM)
    results: dict[str, Any] = {"kills": len(kills), "of them of the JVM": sum(kill_plan.of_jvm for kill_plan in kills)}
    results |= {f"of them after {since}": sum(kill_plan.since == since for kill_plan in kills) for since in MOMENTS}
    results["seed"] = options.seed
    stopped_ms = round(time.time() * 1000)
    # None if the program does not end.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S + 60)
    code = process.poll()
    results["exit code of the last run"] = code
    process.kill()
    source.shutdown()
    source.server_close()
    results |= check(folder, source.acknowledged, stopped_ms, round(options.interval * 1000))
    results["seconds"] = round(time.monotonic() - began)
    for name, value in results.items():
        print(f"{name}: {value}")
    faults = ("lost", "batches missing", "batches that differ when run again", "wrong states and windows")
    few = source.acknowledged < LEAST_RECORDS * max(len(kills), 1)
    if few:
        print(f"too few records were acknowledged, at least {LEAST_RECORDS} a kill are wanted")
    if not results["lines of files"]:
        print("no file was read")
    if few or not results["lines of files"] or code != 0 or any(results[name] for name in faults):
        raise SystemExit(f"FAILED; all of it is in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
