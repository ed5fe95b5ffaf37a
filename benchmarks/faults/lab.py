"""``FaultLab``: runs broker, producer and program, injects faults, and compares what was sent with what was written."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
from attrs import asdict, frozen

from benchmarks.faults.comparison import Comparison, Fault, Wipe, compare
from benchmarks.faults.producer import Producer
from benchmarks.faults.program import STOP_S, Spec, connect
from benchmarks.faults.sources import FaultSource
from benchmarks.processes import end_session, processes_of
from penstock_brokers import TcpProxy

DISK_MB = 256
_POLL_S = 0.05
# Silence beyond a lease, as a multiple of it.
_BEYOND_LEASE = 1.6
_END_S = 60.0


class FaultLabError(Exception):
    """The lab cannot go on: the program does not recover, or the broker does not start."""


@frozen
class LabResult:
    """The result of a run.

    Attributes:
        comparison: what was sent, and what was written.
        faults: the faults in their order.
        load_s: how long faults were injected.
        relaunches: how often the program was started again.
        failed_publishes: calls of the producer that the broker did not confirm.
    """

    comparison: Comparison
    faults: Sequence[Fault]
    load_s: float
    relaunches: int
    failed_publishes: int


class FaultLab:
    """One run. The ``with`` block ends every process and removes every file.

    Args:
        source: the broker.
        seed: of the kinds of faults, their order, times and durations; what they hit differs from run to run.
        rate: numbers per second.
        master: Spark's master: ``local-cluster[…]`` has executors to kill.
        kinds: names of the faults to choose from; all that apply if empty.
        recovery_s: maximum time from a fault to a written number that was sent after it, and of the program's start.
        report: called with each line of progress.
    """

    def __init__(
        self,
        source: FaultSource,
        *,
        seed: int = 1,
        rate: float = 500.0,
        master: str = "local-cluster[2,2,1024]",
        kinds: Sequence[str] = (),
        recovery_s: float = 300.0,
        report: Callable[[str], object] = print,
    ) -> None:
        self._source = source
        self._rng = random.Random(seed)
        self._master = master
        self._report = report
        self._kinds = kinds
        self._recovery_s = recovery_s
        self._producer = Producer(source.publish, source.disconnect, rate)
        self._entered = ExitStack()
        self._folder = Path()
        # Between the receiver and the broker, unless that cannot have one.
        self._proxy: TcpProxy | None = None
        # Where the receiver connects or listens.
        self._port = 0
        self._disk: Path | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._wipes: list[Wipe] = []
        self._faults: list[Fault] = []
        self._relaunches = -1
        self._began_s = 0.0

    def __enter__(self) -> FaultLab:
        enter = self._entered
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-faults-"))
        enter.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._disk = enter.enter_context(_small_disk(self._folder / "disk"))
        enter.enter_context(self._source.server)
        enter.callback(self._source.disconnect)
        self._port = self._source.port
        if self._source.cut is None:
            self._proxy = enter.enter_context(TcpProxy("127.0.0.1", self._port))
            self._port = self._proxy.port
        enter.callback(self._end_program)
        return self

    def __exit__(self, *_error: object) -> None:
        self._entered.close()

    def kinds(self) -> Mapping[str, Callable[[], object]]:
        """Name of a fault → what injects it: those that apply to the broker and to this machine."""
        has_executors = self._master.startswith("local-cluster")
        kinds: dict[str, Callable[[], object] | None] = {
            "worker killed": lambda: self._worker().kill(),
            "worker suspended": lambda: self._suspend(self._worker()),
            "executor killed": (lambda: self._executor().kill()) if has_executors else None,
            "JVM killed": self._kill_jvm,
            "driver killed": self._kill_driver,
            "broker killed": self._kill_broker if self._source.restarts else None,
            "broker restarted": self._source.server.restart if self._source.restarts else None,
            "broker restarted without data": self._wipe_broker if self._source.restarts else None,
            "broker suspended": self._suspend_broker,
            "connection cut": self._cut,
            "sink slow": self._slow_sink,
            "disk full": self._fill_disk if self._disk is not None else None,
        }
        return {name: fault for name, fault in kinds.items() if fault and (not self._kinds or name in self._kinds)}

    def run(self, minutes: float) -> LabResult:
        """Run for some minutes, then until everything is written; a fault that began is finished.

        Raises:
            FaultLabError: the program did not recover from a fault, or did not end.
        """
        source = self._source
        source.prepare()
        disk = self._disk or self._folder / "disk"
        spec = Spec(source.receiver, source.options(self._port), self._master, 1.0, str(disk))
        (self._folder / "spec.json").write_text(json.dumps(asdict(spec)))
        self._began_s = time.monotonic()
        with self._producer:
            self._keep_program()
            self._await_progress("the start")
            self._began_s = time.monotonic()
            self._inject(minutes * 60)
        load_s = time.monotonic() - self._began_s
        self._say("everything published; waiting for the rest")
        self._await(lambda: self._remaining() == 0, "all messages are acknowledged")
        remaining = self._remaining()
        self._stop_program()
        with closing(connect(self._folder)) as database:
            batches: dict[int, list[int]] = {}
            for batch_ms, number in database.execute("SELECT batch_ms, number FROM numbers"):
                batches.setdefault(batch_ms, []).append(number)
        producer = self._producer
        comparison = compare(producer.confirmed, producer.begun, batches.items(), remaining, self._wipes, self._faults)
        return LabResult(comparison, self._faults, load_s, self._relaunches, producer.failures)

    # -- one fault after the other --

    def _inject(self, seconds: float) -> None:
        """Inject each kind once per round, in another order each time, until the time has passed."""
        kinds = list(self.kinds().items())
        ends_s = self._began_s + seconds
        while True:
            self._rng.shuffle(kinds)
            for name, fault in kinds:
                pause_s = self._rng.uniform(1.0, 4.0)
                if time.monotonic() + pause_s >= ends_s:
                    time.sleep(max(ends_s - time.monotonic(), 0))
                    return
                time.sleep(pause_s)
                began_s, at_ms = time.monotonic(), round(time.time() * 1000)
                # Counts before it has recovered: repetitions are explained by it.
                self._faults.append(Fault(at_ms, name))
                fault()
                self._await_progress(name)
                recovered_s = time.monotonic() - began_s
                self._faults[-1] = Fault(at_ms, name, recovered_s)
                self._say(f"{name}; {recovered_s:.1f} s later a number sent after it was written")

    def _await_progress(self, what: str) -> None:
        """Wait until a number that is sent from now on is written."""
        sent = self._producer.begun
        self._await(lambda: self._newest() >= sent, f"a number sent after {what} is written")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._recovery_s
        while not condition():
            self._keep_program()
            if time.monotonic() > deadline:
                raise FaultLabError(
                    f"not within {self._recovery_s:g} s: {what}; the program's log ends with\n{self._log()}"
                )
            time.sleep(_POLL_S)

    def _newest(self) -> int:
        if not (self._folder / "written.db").exists():
            return -1
        with closing(connect(self._folder)) as database:
            return int(database.execute("SELECT coalesce(max(number), -1) FROM numbers").fetchone()[0])

    def _remaining(self) -> int:
        """The messages that are not acknowledged; -1 while the broker does not say."""
        try:
            return self._source.remaining()
        # A client raises errors of its own while its broker is down.
        except Exception:
            self._source.disconnect()
            return -1

    # -- the faults --

    def _suspend(self, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
            time.sleep(_BEYOND_LEASE * self._source.lease_s)
            process.resume()

    def _kill_jvm(self) -> None:
        program, jvm = self._running_program(), self._jvm()
        jvm.kill()
        try:
            program.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise FaultLabError(f"{_END_S:g} s after its JVM was killed, the program still runs") from None

    def _kill_driver(self) -> None:
        program = self._running_program()
        program.kill()
        program.wait()

    @contextmanager
    def _cut_off(self) -> Iterator[None]:
        """Break the receiver's connections, and refuse new ones."""
        if self._source.cut is not None:
            with self._source.cut():
                yield
            return
        assert self._proxy is not None
        self._proxy.cut()
        try:
            yield
        finally:
            self._proxy.heal()

    def _cut(self) -> None:
        with self._cut_off():
            time.sleep(self._rng.uniform(0, 2))

    def _kill_broker(self) -> None:
        if self._source.save is not None:
            self._producer.pause()
            self._source.save()
        self._source.server.kill()
        self._producer.resume()
        time.sleep(self._rng.uniform(0, 3))
        self._source.server.start()

    def _wipe_broker(self) -> None:
        """Restart the broker without data, when it is known how many messages it loses."""
        self._producer.pause()
        # Nothing is acknowledged meanwhile.
        with self._cut_off():
            self._wipes.append(Wipe(self._producer.begun, self._source.remaining()))
            self._source.disconnect()
            self._source.server.restart(keep_data=False)
            self._source.prepare()
        self._producer.resume()

    def _suspend_broker(self) -> None:
        self._source.server.suspend()
        time.sleep(_BEYOND_LEASE * self._source.lease_s)
        self._source.server.resume()

    def _slow_sink(self) -> None:
        (self._folder / "slow").write_text(f"{self._rng.uniform(2, 8):.1f}")

    def _fill_disk(self) -> None:
        assert self._disk is not None
        ballast = self._disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"\0" * 65536):
                pass
        time.sleep(self._rng.uniform(1, 4))
        ballast.unlink()

    # -- the program and its processes --

    def _keep_program(self) -> None:
        """Start the program, also when it has ended; the processes of the last one may still be ending."""
        if self._program is not None and self._program.poll() is None:
            return
        self._relaunches += 1
        with (self._folder / "log").open("ab") as log:
            self._program = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.faults.program", str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._entered.callback(end_session, self._program.pid)

    def _running_program(self) -> subprocess.Popen[bytes]:
        self._keep_program()
        assert self._program is not None
        return self._program

    def _processes(self) -> list[psutil.Process]:
        processes = []
        for pid in processes_of(self._running_program().pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(pid))
        return processes

    def _worker(self) -> psutil.Process:
        """The process that has a connection to the broker, or from it."""
        return self._found(lambda process: any(_has_port(each, self._port) for each in _connections(process)))

    def _executor(self) -> psutil.Process:
        """The JVM of the executor that runs the receiver."""
        worker = self._worker()
        return next(each for each in worker.parents() if each.name() == "java")

    def _jvm(self) -> psutil.Process:
        """The driver's JVM."""
        driver = self._running_program().pid
        return self._found(lambda process: process.name() == "java" and process.ppid() == driver)

    def _found(self, is_it: Callable[[psutil.Process], bool]) -> psutil.Process:
        found: list[psutil.Process] = []

        def look() -> bool:
            for process in self._processes():
                with contextlib.suppress(psutil.Error):
                    if is_it(process):
                        found.append(process)
            return bool(found)

        self._await(look, "the process to fail runs")
        return found[0]

    def _stop_program(self) -> None:
        program = self._running_program()
        program.send_signal(signal.SIGTERM)
        try:
            code = program.wait(STOP_S + _END_S)
        except subprocess.TimeoutExpired:
            raise FaultLabError(f"the program did not stop; its log ends with\n{self._log()}") from None
        if code:
            raise FaultLabError(f"the program's stop ended with {code}; its log ends with\n{self._log()}")

    def _end_program(self) -> None:
        if self._program is not None and self._program.poll() is None:
            self._program.kill()
            self._program.wait()

    def _log(self) -> str:
        path = self._folder / "log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-30:]) if path.exists() else ""

    def _say(self, what: str) -> None:
        minutes, seconds = divmod(round(time.monotonic() - self._began_s), 60)
        sent = len(self._producer.confirmed)
        self._report(f"{minutes:3}:{seconds:02} {sent:>9,} sent, newest written {self._newest():>9,}: {what}")


def table(name: str, seed: int, result: LabResult) -> str:
    """The result as a row of a table, with its header."""
    counts = Counter(fault.kind for fault in result.faults)
    slowest = max((fault.recovered_s for fault in result.faults), default=0.0)
    each = result.comparison
    why = ", ".join(f"{count:,} after {kind}" for kind, count in each.repeated_after.most_common())
    cells = [
        name,
        f"{result.load_s / 60:.1f}",
        str(seed),
        f"{len(result.faults)} ({', '.join(f'{count} {kind}' for kind, count in sorted(counts.items()))})",
        f"{each.sent:,}",
        f"{each.acknowledged:,}",
        f"{each.stored:,}",
        f"{each.written:,}",
        f"{each.gone:,}",
        f"{each.lost:,}",
        f"{each.repeated:,}" + (f" ({why})" if why else ""),
        f"{slowest:.0f}",
    ]
    head = [
        *("broker", "minutes", "seed", "faults", "sent", "acknowledged", "stored", "written"),
        *("gone with the broker's data", "lost", "repeated", "longest recovery, s"),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), cells))


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path | None]:
    """A small disk that fills up quickly; ``None`` if this user must not mount one."""
    folder.mkdir()
    options = f"size={DISK_MB}m,mode=0700"
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounting.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _connections(process: psutil.Process) -> list[Any]:
    return list(process.net_connections("tcp"))


def _has_port(connection: Any, port: int) -> bool:
    """Whether a connection is established, and one of its ends has this port."""
    return connection.status == psutil.CONN_ESTABLISHED and port in (connection.laddr.port, connection.raddr.port)
