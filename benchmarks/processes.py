"""The processes of a measurement: their memory and CPU time from /proc, and their end.

All of them are in the session that their first process leads. Spark's Python daemon leaves the process group, not the
session.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import field, frozen

#: The first process, Java with the scripts that start it, and all other Python processes.
ROLES = ("driver", "jvm", "workers")

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@frozen
class Process:
    """One process at one time.

    Attributes:
        role: one of the roles above.
        cpu_s: CPU time so far, without that of its children.
        mb: resident memory without mapped files.
    """

    role: str
    cpu_s: float
    mb: float


def processes_of(session: int) -> dict[int, Process]:
    """The processes of a session by their ids."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while it is read.
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, _, rest = stat.read_text().rpartition(")")
            fields = rest.split()
            if int(fields[3]) != session or fields[0] == "Z":
                continue
            pid = int(stat.parent.name)
            is_python = name.partition("(")[2].startswith("python")
            role = "driver" if pid == session else "workers" if is_python else "jvm"
            pages = (stat.parent / "statm").read_text().split()
            mb = (int(pages[1]) - int(pages[2])) * _PAGE_BYTES / 1e6
            processes[pid] = Process(role, sum(map(int, fields[11:13])) / _TICKS_PER_S, mb)
    return processes


def end_session(session: int, timeout_s: float = 10.0) -> None:
    """Kill all processes of a session.

    Raises:
        TimeoutError: one is still there after the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while remaining := processes_of(session):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {sorted(remaining)} did not end")
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


@contextlib.contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Make SIGTERM raise SystemExit, so that child processes end with this one, as on Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@frozen
class Usage:
    """The resources that the processes of a session used between two moments.

    Attributes:
        peak_mb: peak memory of all processes together.
        peak_of_role_mb: peak memory of all processes of a role together, by role.
        cpu_of_role_s: CPU time by role.
        busiest_worker_s: CPU time of the busiest worker, which is the receiver's if little else runs.
    """

    peak_mb: float = 0.0
    peak_of_role_mb: Mapping[str, float] = field(factory=dict)
    cpu_of_role_s: Mapping[str, float] = field(factory=dict)
    busiest_worker_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """CPU time of all roles."""
        return sum(self.cpu_of_role_s.values())


class Watch:
    """Samples the processes of a session on a thread of its own.

    Args:
        session: the id of its first process.
        period_s: seconds between two samples; shorter at the beginning, so that a short program is sampled as well.
    """

    def __init__(self, session: int, period_s: float = 0.25) -> None:
        self._session = session
        self._period_s = period_s
        self._stopped = threading.Event()
        self._samples: list[tuple[float, dict[int, Process]]] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples."""
        self._stopped.set()
        self._thread.join()

    def usage(self, from_s: float, to_s: float) -> Usage:
        """The usage between two moments, in seconds of the epoch, rounded out to the next samples."""
        inside = [sample for sample in self._samples if from_s - self._period_s <= sample[0] <= to_s + self._period_s]
        samples = [processes for _, processes in inside or self._samples[-1:]]
        if not samples:
            return Usage()
        of_role = [{role: _total_mb(processes, role) for role in ROLES} for processes in samples]
        used = {pid: _cpu_of(pid, samples) for processes in samples for pid in processes}
        roles = {pid: process.role for processes in samples for pid, process in processes.items()}
        return Usage(
            max(sum(sample.values()) for sample in of_role),
            {role: max(sample[role] for sample in of_role) for role in ROLES},
            {role: sum(spent for pid, spent in used.items() if roles[pid] == role) for role in ROLES},
            max((spent for pid, spent in used.items() if roles[pid] == "workers"), default=0.0),
        )

    def _sample(self) -> None:
        began = time.time()
        while not self._stopped.is_set():
            now = time.time()
            self._samples.append((now, processes_of(self._session)))
            self._stopped.wait(min(max((now - began) / 10, 0.01), self._period_s))


def _total_mb(processes: Mapping[int, Process], role: str) -> float:
    return sum(process.mb for process in processes.values() if process.role == role)


def _cpu_of(pid: int, samples: list[dict[int, Process]]) -> float:
    """CPU time of a process; one that started later counts from its start."""
    before = samples[0][pid].cpu_s if pid in samples[0] else 0.0
    return next(processes[pid].cpu_s for processes in reversed(samples) if pid in processes) - before
