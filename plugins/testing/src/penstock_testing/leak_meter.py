"""``LeakMeter`` finds what a plugin has not released or restored in the process."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from penstock.runtime.global_state import GlobalState

_POLL_S = 0.005
#: Bytes by which the memory may grow in 2,000 batches: 16 each. An integer or float that is kept takes 24 or more.
MOST_GROWTH = 32_000
_ALLOWED_THREADS = ("penstock kit",)


class LeakMeter:
    """Finds what has changed in the process since the meter was made.

    It sees additional threads, child processes, descriptors and temporary files, and changes of the global state: the
    working directory, environment, locale, umask, signal handlers, root logger, warnings filters and their like.
    """

    def __init__(self) -> None:
        self._state = GlobalState()
        self._threads, self._processes = set(threading.enumerate()), children()
        self._files, self._temporary = _descriptors(), _temporary_files()

    def leaks(self, deadline_s: float = 5.0) -> list[str]:
        """The leaks and changes, one line each. Waits up to a deadline for threads and processes that are ending."""
        deadline = time.monotonic() + deadline_s
        while (left := self._now()) and time.monotonic() < deadline:
            threading.Event().wait(_POLL_S)
        return left

    def threads(self) -> list[threading.Thread]:
        """The live threads that were started since the meter was made."""
        return [
            each
            for each in threading.enumerate()
            if each not in self._threads and each.is_alive() and not each.name.startswith(_ALLOWED_THREADS)
        ]

    def changes(self) -> list[str]:
        """The changes of the global state, one line each."""
        return self._state.changes()

    def _now(self) -> list[str]:
        return [
            *(f"thread {each.name!r} is alive" for each in self.threads()),
            *(f"process {each} runs" for each in sorted(children() - self._processes) if not _has_exited(each)),
            *(f"{what} is open" for what in sorted((_descriptors() - self._files).values())),
            *(f"temporary file {name} exists" for name in sorted(_temporary_files() - self._temporary)),
            *self.changes(),
        ]


def children() -> set[int]:
    """The processes that this process has started; empty where /proc is missing."""
    folder = Path("/proc/self/task")
    if not folder.exists():
        return set()
    return {int(child) for task in folder.iterdir() for child in _read(task / "children").split()}


def _has_exited(process: int) -> bool:
    """Whether a child process has exited: Python reaps it when the next one starts."""
    state = _read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return not state or state[0] == "Z"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # the thread or process has ended meanwhile


@frozen
class _Usage:
    """The processor time that a thread used so far, and whether it is ready to run."""

    used_ns: int = 0
    is_ready: bool = False


class ReceiverThreads:
    """Measures the processor time of the threads that were started since a leak meter was made."""

    def __init__(self, meter: LeakMeter) -> None:
        self._meter = meter

    def is_busy(self, window_s: float) -> bool:
        """Wait for a window; return whether the threads are busy in it.

        They are if they used more than a fifth of a processor, or if one is ready to run at the end: on a machine
        without a free processor, a thread that never sleeps mostly waits for one.
        """
        began_s, before = time.monotonic(), self._usage()
        threading.Event().wait(window_s)
        after, window_ns = self._usage(), (time.monotonic() - began_s) * 1e9
        used_ns = sum(now.used_ns - before.get(thread, _Usage()).used_ns for thread, now in after.items())
        return used_ns > 0.2 * window_ns or any(now.is_ready for now in after.values())

    def _usage(self) -> dict[int, _Usage]:
        found = dict[int, _Usage]()
        for thread in self._meter.threads():
            task = Path(f"/proc/self/task/{thread.native_id}")
            try:
                used_ns = int((task / "schedstat").read_text().split()[0])
                # R: it runs, or waits for a processor. The time of a wait is counted only once it is over.
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue  # the thread has ended, or this is not Linux
            found[thread.native_id or 0] = _Usage(used_ns, state == "R")
        return found


def memory_growth(warm_up: Callable[[], object], measured: Callable[[], object], permitted: int) -> int:
    """Call two functions; return by how many bytes the allocated memory grows during the second.

    Args:
        warm_up: fills what is bounded, such as caches and windows.
        measured: the function to measure.
        permitted: a growth above this many bytes is measured after a garbage collection.
    """
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        warm_up()
        before = tracemalloc.get_traced_memory()[0]
        measured()
        if tracemalloc.get_traced_memory()[0] - before > permitted:
            gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


class _Descriptors(dict[str, str]):
    """File descriptors by what they refer to."""

    def __sub__(self, other: dict[str, str]) -> _Descriptors:
        return _Descriptors({key: what for key, what in self.items() if key not in other})


def _descriptors() -> _Descriptors:
    """The files, sockets and pipes that this process has open; empty where /proc is missing."""
    found = _Descriptors()
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return found
    for entry in folder.iterdir():
        try:
            target = os.readlink(entry)  # noqa: PTH115  # text such as "socket:[123]", not a path
        except OSError:
            continue  # closed meanwhile, as the descriptor that lists the folder
        found[f"{entry.name} {target}"] = f"descriptor {entry.name}, {target},"
    return found


def _temporary_files() -> set[str]:
    # The runner gives each check a folder of its own for temporary files.
    return {entry.name for entry in Path(tempfile.gettempdir()).iterdir()}
