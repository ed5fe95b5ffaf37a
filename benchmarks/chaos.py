"""Break what can break below two receivers and count: every acknowledged record must be in exactly one batch.

Two receivers on the executors of a `local-cluster` store numbered records reliably for SECONDS (60), and until each
kind of fault has happened once. Each writes down which numbers `store_all` returned for; numbers that were begun are
never used again. Meanwhile these faults happen, in an order and at times drawn from SEED: a receiver's Python worker
is killed (-9); an executor is killed; an executor is asked to exit (SIGTERM) and cleans up; all connections to the
driver are reset (they pass through a proxy here); the disk of the blocks is full (a small tmpfs, which needs the
right to mount one); a batch is slow. A fault waits until there is something that it breaks. Then the program stops
gracefully, and the notes are compared with the batches. Exits with 1 if a record was lost or duplicated. Only the
faults are seeded: what they hit differs from run to run.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import asdict
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home

from benchmarks import program_state
from penstock import StreamingContext, StreamingListener, ThreadReceiver
from penstock.blocks.block_directories import Process, executor_process
from penstock.track.receiver_launcher import ReceiverLauncher
from penstock_cli.java import ensure_java

RECORDS = 500  # in a store
DISK_MB = 96


class Numbered(ThreadReceiver[int]):
    """Stores numbers and writes down what was acknowledged.

    Notes are written, not synced: processes are killed here, the machine is not.
    """

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def receive(self) -> None:
        """Continue after the last number that any earlier launch has taken."""
        worker, executor = Process.of(os.getpid()), executor_process()
        pids = self.notes.with_suffix(".new")
        pids.write_text(json.dumps({"worker": asdict(worker), "executor": asdict(executor)}))
        pids.replace(self.notes.with_suffix(".pids"))
        with self.notes.with_suffix(".acknowledged").open("ab", buffering=0) as acknowledged:
            while not self.wait(0.01):
                first = self.begin()
                self.store_all(range(first, first + RECORDS))
                acknowledged.write(struct.pack("q", first))

    def begin(self) -> int:
        """Take the next numbers; an earlier process may still be taking numbers, too."""
        with self.notes.with_suffix(".begun").open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0, os.SEEK_END)
            first = file.tell() // 8 * RECORDS
            file.write(struct.pack("q", first))
            return first


class Proxy:
    """The proxy in front of the driver: forwards bytes until its connections are cut."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._pairs: set[socket.socket] = set()
        self._target = 0
        self._closed_until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, port: int) -> int:
        """Forward to a port; return the proxy's own port."""
        self._target = port
        return int(self._listener.getsockname()[1])

    def cut(self, for_s: float) -> int:
        """Wait for a connection, reset all of them, and refuse new ones for a while; return how many were reset."""
        wait_for(lambda: self._pairs, "a connection to the driver")
        self._closed_until = time.monotonic() + for_s
        open_ones = list(self._pairs)
        for sock in open_ones:
            _reset(sock)
        return len(open_ones) // 2

    def _accept(self) -> None:
        while True:
            incoming, _ = self._listener.accept()
            try:
                if time.monotonic() < self._closed_until:
                    raise ConnectionRefusedError
                outgoing = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _reset(incoming)
                continue
            for source, sink in ((incoming, outgoing), (outgoing, incoming)):
                self._pairs.add(source)
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            self._pairs.discard(source)
            _reset(sink)
            source.close()


def _reset(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Events(StreamingListener):
    """Counts what happens."""

    def __init__(self) -> None:
        self.started = 0
        self.batches = 0
        self.failed = 0
        self.errors: Counter[str] = Counter()

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        """Count."""
        self.started += 1

    def onReceiverError(self, receiverError: Any) -> None:
        """Count."""
        self.errors[receiverError.receiverInfo.lastErrorMessage.partition(":")[0][:60]] += 1

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        """Count."""
        self.batches += 1
        failures = [info.failureReason for info in batchCompleted.batchInfo.outputOperationInfos.values()]
        if any(failures):
            self.failed += 1
            print("a batch failed:", *failures, flush=True)


class Chaos:
    """The faults.

    Args:
        seed: of their order and times.
        notes: of the receivers.
        proxy: before the driver.
        disk: of the blocks; ``None`` when it cannot be filled.
    """

    def __init__(self, seed: int, notes: list[Path], proxy: Proxy, disk: Path | None) -> None:
        self._random = random.Random(seed)
        self._notes = notes
        self._proxy = proxy
        self._disk = disk
        self.done: Counter[str] = Counter()
        self.slow_s = 0.0

    def run(self, seconds: float) -> None:
        """One fault after the other, each kind once a round: one round at least."""
        kinds = [self.kill_worker, self.kill_executor, self.end_executor, self.cut_connections, self.slow_batch]
        if self._disk is not None:
            kinds.append(self.fill_disk)
        ends = time.monotonic() + seconds
        rounds = 0
        while True:
            self._random.shuffle(kinds)
            for fault in kinds:
                pause_s = self._random.uniform(0.5, 2.5)
                if rounds and time.monotonic() + pause_s >= ends:
                    time.sleep(max(ends - time.monotonic(), 0))
                    return
                time.sleep(pause_s)
                fault()
            rounds += 1

    def kill_worker(self) -> None:
        """Kill the process that runs a receiver."""
        self._kill("worker", "killed Python workers of receivers")

    def kill_executor(self) -> None:
        """Kill the JVM below a receiver."""
        self._kill("executor", "killed executors")

    def end_executor(self) -> None:
        """Let the JVM below a receiver exit cleanly, as it does when it runs out of memory."""
        self._kill("executor", "executors ended in order", signal.SIGTERM)

    def _kill(self, which: str, name: str, with_signal: signal.Signals = signal.SIGKILL) -> None:
        written = self._random.choice(self._notes).with_suffix(".pids")

        def strike() -> bool:
            process = Process(**json.loads(written.read_text())[which])
            with suppress(ProcessLookupError):
                current = Process.of(process.pid)
                # `is_alive` tolerates a clock change. Here the same pid could belong to another process.
                if process.is_alive and abs(current.create_time - process.create_time) < 1:
                    os.kill(process.pid, with_signal)
                    return True
            return False

        wait_for(strike, f"a receiver's {which} that lives")
        self.done[name] += 1

    def cut_connections(self) -> None:
        """Reset every connection to the driver."""
        self.done["cut connections to the driver"] += self._proxy.cut(self._random.uniform(0, 1.5))

    def slow_batch(self) -> None:
        """Slow the next batch down."""
        self.slow_s = self._random.uniform(1, 3)
        self.done["slow batches"] += 1

    def fill_disk(self) -> None:
        """Fill the disk for a while."""
        assert self._disk is not None
        ballast = self._disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            with suppress(OSError):
                while file.write(b"\0" * 65536):
                    pass
            self.done["full disks"] += 1
            time.sleep(self._random.uniform(0.5, 2))
        ballast.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A small disk that fills up quickly; ``None`` if this user must not mount one."""
    folder.mkdir()
    options = f"size={DISK_MB}m,mode=0700"
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounting.returncode:
        print("No disk is filled up, a tmpfs cannot be mounted:", mounting.stderr.strip())
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 300) -> None:
    """Wait, with a deadline.

    Raises:
        TimeoutError: the condition has not become true.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.05)


def run(seconds: float, seed: int, folder: Path, disk: Path | None) -> bool:
    """Run the program under its faults; return whether no record was lost or duplicated."""
    notes = [folder / f"receiver-{number}" for number in range(2)]
    proxy = Proxy()
    set_port = ReceiverLauncher.set_driver_port
    ReceiverLauncher.set_driver_port = lambda self, port: set_port(self, proxy.lead_to(port))  # type: ignore[method-assign]
    conf = SparkConf().setMaster("local-cluster[2,2,1024]").setAppName("chaos").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.python.unix.domain.socket.enabled", "true")
    conf.set("spark.local.dir", str(disk or folder))
    conf.set("spark.streaming.gracefulStopTimeout", "180s")
    conf.set("spark.streaming.receiverRestartDelay", "100ms")
    conf.set(*program_state.TRACEBACKS)
    conf.set("spark.penstock.log.level", os.environ.get("PENSTOCK_LOG", "CRITICAL"))
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    ssc = StreamingContext(sc, 1)
    events, chaos = Events(), Chaos(seed, notes, proxy, disk)
    ssc.addStreamingListener(events)
    seen = [array("q") for _ in notes]

    def take(rdd: Any, into: array[int]) -> None:
        slow_s, chaos.slow_s = chaos.slow_s, 0
        time.sleep(slow_s)
        for part in rdd.mapPartitions(lambda numbers: [array("q", numbers).tobytes()]).collect():
            into.frombytes(part)

    for note, into in zip(notes, seen, strict=True):
        ssc.receiverStream(Numbered(note)).foreachRDD(lambda rdd, into=into: take(rdd, into))
    try:
        ssc.start()
        wait_for(lambda: all(map(has_acknowledged, notes)), "the first records")
        started = time.monotonic()
        chaos.run(seconds)
        # Check that the receivers have recovered, not only that the counts are right. A receiver whose executor was
        # killed counts as active until Spark has retried its task, which may need a new executor. Only its records
        # prove that it is back.
        wait_for(
            lambda: all(info.active for info in ssc._engine.tracker.receiver_infos().values()),
            "both receivers are back",
        )
        before = [len(into) for into in seen]
        wait_for(lambda: all(len(into) > had for into, had in zip(seen, before, strict=True)), "records of both")
        ran_s, relaunches = time.monotonic() - started, events.started - len(notes)
        stopping = time.monotonic()
        ssc.stop(stopSparkContext=False, stopGraceFully=True)
        stop_s = time.monotonic() - stopping
    except TimeoutError:
        print(program_state.describe(sc, ssc), file=sys.stderr, flush=True)
        raise
    finally:
        ssc.stop(stopSparkContext=False)
        application = sc.applicationId
        sc.stop()
        # Where the workers of a local-cluster keep what executors print.
        if application:
            shutil.rmtree(Path(_find_spark_home()) / "work" / application, ignore_errors=True)
    lost = twice = unknown = unanswered = disorder = 0
    blocks = records = 0
    for note, into in zip(notes, seen, strict=True):
        acknowledged, begun = (_numbers(note.with_suffix(suffix)) for suffix in (".acknowledged", ".begun"))
        expected = {number for first in acknowledged for number in range(first, first + RECORDS)}
        come = set(into)
        lost += len(expected - come)
        twice += len(into) - len(come)
        unanswered += len(come - expected)
        unknown += sum(number >= len(begun) * RECORDS for number in come)
        disorder += sum(later <= earlier for earlier, later in itertools.pairwise(into))
        blocks += len(acknowledged)
        records += len(expected)
    print(f"seed {seed}: {ran_s:.1f} s of load, then a graceful stop of {stop_s:.1f} s")
    for name, count in sorted(chaos.done.items()):
        print(f"{count:>12,} {name}")
    for count, name in (
        (relaunches, "relaunches and restarts of receivers"),
        (events.batches, f"batches, {events.failed} of them failed"),
        (blocks, "blocks acknowledged"),
        (records, "records acknowledged"),
        (unanswered, "records more in the batches: accepted, and killed before the answer"),
        (disorder, "records out of order"),
        (unknown, "records that nobody stored"),
        (twice, "records twice"),
        (lost, "records lost"),
    ):
        print(f"{count:>12,} {name}")
    for message, count in events.errors.most_common():
        print(f"{count:>12,} x reported: {message}")
    sys.stdout.flush()
    return not (lost or twice or unknown or disorder or events.failed)


def has_acknowledged(note: Path) -> bool:
    """Whether a receiver has written down an acknowledgement; the file alone says that it has started."""
    path = note.with_suffix(".acknowledged")
    return path.exists() and path.stat().st_size > 0


def _numbers(path: Path) -> array[int]:
    return array("q", path.read_bytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, help="how long the receivers store")
    parser.add_argument("seed", type=int, nargs="?", default=1, help="of the faults and their times")
    options = parser.parse_args()
    ensure_java()
    folder = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    try:
        with small_disk(folder / "disk") as disk:
            went_well = run(options.seconds, options.seed, folder, disk)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(not went_well)
