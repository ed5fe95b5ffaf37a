"""The program that is killed, suspended, or has a sink that fails; and how it is launched.

With write-ahead logs and checkpoints on, it counts the numbers of a ``Source`` by key, in two kinds of state and in a
window, and joins a window of the lines of files with a table, as DataFrames. Each output writes each batch into a file
of its own. While the file ``sink-is-down`` exists, all outputs but ``updated`` fail. Every attempt to write is a line
of the file ``attempts``.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

WINDOW = 4
KEYS = 7
#: The output that succeeds while the sink of the others is down.
INDEPENDENT = "updated"
#: The names of all outputs, in the order of the program.
OUTPUTS = ("records", INDEPENDENT, "mapped", "window", "files", "frames")
#: Those that cost little, with each kind of input, a state and a window: a batch is done in half the time.
LIGHT_OUTPUTS = ("records", INDEPENDENT, "window", "files")
# Maximum time of the last stop, which first processes the batches of all downtimes.
STOP_S = 600


def program(folder: Path, port: int, interval_s: float, on_failed_batch: str, outputs: Collection[str]) -> None:
    """Run until SIGTERM, from the checkpoint if there is one."""
    from pyspark import RDD, SparkConf, SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from penstock import StateSpec, StreamingContext, ThreadReceiver
    from penstock.errors import BatchFailedError

    class SinkIsDownError(Exception):
        """The sink refuses to write."""

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
            is_refused = self.name != INDEPENDENT and (folder / "sink-is-down").exists()
            if not is_refused:
                attempt = sc.getLocalProperty("spark.penstock.batch.attempt")
                target = folder / "out" / f"{self.name}-{batch_ms}-{attempt}-{os.getpid()}"
                partial = target.with_suffix(".partial")
                partial.write_text(json.dumps(sorted(records)))
                partial.rename(target)
            entry = [os.getpid(), self.name, batch_ms, not is_refused, time.monotonic()]
            # In one write, so that a kill truncates no line.
            with (folder / "attempts").open("ab", buffering=0) as attempts:
                attempts.write(json.dumps(entry).encode() + b"\n")
            if is_refused:
                raise SinkIsDownError(f"no {self.name} of {batch_ms}")

    def names() -> DataFrame:
        values = ", ".join(f"({key}, 'key {key}')" for key in range(KEYS))
        return SparkSession.builder.getOrCreate().sql(f"SELECT * FROM VALUES {values} AS names(key, name)")

    def total(new: Iterable[int], old: int | None) -> int:
        return sum(new) + (old or 0)

    def count(key: str, value: int, state: Any) -> None:
        state.update((state.get() if state.exists() else 0) + value)

    def create() -> StreamingContext:
        # The master comes from the launch.
        conf = SparkConf().setAppName("counting").set("spark.ui.enabled", "false")
        conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
        conf.set("spark.streaming.receiver.writeAheadLog.enable", "true").set("spark.penstock.log.level", "INFO")
        conf.set("spark.streaming.stopGracefullyOnShutdown", "true")
        conf.set("spark.streaming.gracefulStopTimeout", f"{STOP_S}s")
        conf.set("spark.penstock.onFailedBatch", on_failed_batch)
        sc = SparkContext(conf=conf)
        ssc = StreamingContext(sc, interval_s)
        numbers = ssc.receiverStream(Acknowledging())
        pairs = numbers.map(lambda number: (f"key {number % KEYS}", 1))
        numbers.foreachRDD(Write("records"))
        # As many partitions as the first launch has free cores; a recovered state keeps its number.
        pairs.updateStateByKey(total).checkpoint(4 * interval_s).foreachRDD(Write("updated"))
        if "mapped" in outputs:
            mapped = pairs.mapWithState(StateSpec.function(count).numPartitions(2))
            mapped.checkpoint(4 * interval_s)
            mapped.stateSnapshots().foreachRDD(Write("mapped"))
        windows = pairs.reduceByKeyAndWindow(lambda a, b: a + b, None, WINDOW * interval_s, interval_s, 2)
        windows.foreachRDD(Write("window"))
        lines = ssc.textFileStream(str(folder / "in"))
        lines.foreachRDD(Write("files"))
        if "frames" in outputs:
            recent = lines.window(WINDOW * interval_s).toDF().selectExpr("value", f"cast(value AS int) % {KEYS} AS key")
            recent.join(names, "key").select("value", "name").foreachBatch(Write("frames").frame)
        return ssc

    ssc = StreamingContext.getOrCreate(str(folder / "checkpoint"), create)
    ssc.sparkContext.setLogLevel("OFF")
    ssc.start()
    (folder / f"started-{os.getpid()}").touch()
    while True:
        try:
            ssc.awaitTermination()
            return
        except BatchFailedError as error:
            if SinkIsDownError.__name__ not in str(error):
                raise


def make_folder(name: str) -> Path:
    """A new folder for the files of the program's runs."""
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
    for part in ("out", "in"):
        (folder / part).mkdir()
    (folder / "log").touch()
    return folder


def launch(
    folder: Path,
    port: int,
    interval_s: float,
    on_failed_batch: str = "continue",
    *,
    log: str = "log",
    environment: Mapping[str, str] | None = None,
    cores: int = 4,
    conf: Iterable[str] = (),
    outputs: Iterable[str] = OUTPUTS,
) -> subprocess.Popen[bytes]:
    """Launch the program, which ends with this process.

    Args:
        folder: of all runs.
        port: the port of the source.
        interval_s: batch interval.
        on_failed_batch: the policy for failed batches.
        log: the file in the folder to which the program prints.
        environment: is added to that of this process.
        cores: of the master.
        conf: further configuration, as ``KEY=VALUE``.
        outputs: the names of its outputs: all, or the light ones.
    """
    submit = " ".join(["--master", f"local[{cores}]", *(f"--conf {entry}" for entry in conf), "pyspark-shell"])
    arguments = ["--port", str(port), "--interval", str(interval_s), "--on-failed-batch", on_failed_batch]
    arguments += ["--outputs", *outputs]
    with (folder / log).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit, **(environment or {})},
        )
    # Unless it has ended by then.
    atexit.register(process.kill)
    return process


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


def stop(folder: Path, process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Stop the program gracefully; return its exit code, and the time of the request in ms."""
    process.send_signal(signal.SIGTERM)
    stopped_ms = round(time.time() * 1000)
    try:
        return process.wait(STOP_S + 60), stopped_ms
    except subprocess.TimeoutExpired:
        process.kill()
        raise SystemExit(f"FAILED: the program does not stop; all of it is in {folder}") from None


def main() -> None:
    """Run the program."""
    from penstock_cli.java import ensure_java

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of all runs")
    parser.add_argument("--port", type=int, required=True, help="the port of the source")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    parser.add_argument("--on-failed-batch", default="continue", help="the policy for failed batches")
    parser.add_argument("--outputs", nargs="+", default=OUTPUTS, help="the names of its outputs")
    options = parser.parse_args()
    ensure_java()
    program(options.folder, options.port, options.interval, options.on_failed_batch, options.outputs)


if __name__ == "__main__":
    main()
