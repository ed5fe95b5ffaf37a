"""``LeakMeter`` finds what a plugin has not released or restored in the process."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from penstock_testing.global_state import GlobalState

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
        self._process = psutil.Process()
        self._threads = set(threading.enumerate())
        self._children = children()
        self._temporary = _temporary_files()
        self._num_descriptors = self._process.num_fds()
        self._open = self._open_now()
        self._state = GlobalState()

    def leaks(self, deadline_s: float = 5.0) -> list[str]:
        """The leaks and changes, one line each. Waits up to a deadline for threads and processes that are ending."""
        deadline = time.monotonic() + deadline_s
        while self._remains() and time.monotonic() < deadline:
            threading.Event().wait(_POLL_S)
        return self._remains()

    def threads(self) -> list[threading.Thread]:
        """The live threads that were started since the meter was made."""
        return [
            thread
            for thread in threading.enumerate()
            if thread not in self._threads and thread.is_alive() and not thread.name.startswith(_ALLOWED_THREADS)
        ]

    def changes(self) -> list[str]:
        """The changes of the global state, one line each."""
        return self._state.changes()

    def _remains(self) -> list[str]:
        return [
            *(f"thread {thread.name!r} is alive" for thread in self.threads()),
            *(f"process {process} runs" for process in sorted(children() - self._children)),
            *self._descriptors(),
            *(f"temporary file {name} exists" for name in sorted(_temporary_files() - self._temporary)),
            *self.changes(),
        ]

    def _descriptors(self) -> list[str]:
        added = self._process.num_fds() - self._num_descriptors
        if added <= 0:
            return []
        return sorted(f"{what} is open" for what in self._open_now() - self._open) or [
            f"the number of open descriptors grew by {added}"
        ]

    def _open_now(self) -> set[str]:
        """The files and sockets that are open; psutil names no pipes and devices."""
        files = {f"descriptor {file.fd}, {file.path}," for file in self._process.open_files()}
        sockets = self._process.net_connections(kind="all")
        return files | {f"descriptor {socket.fd}, a socket at {socket.laddr or '?'}," for socket in sockets}


def children() -> set[int]:
    """The running processes that this process has started."""
    running = set[int]()
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                running.add(process.pid)
    return running


def is_busy(meter: LeakMeter, window_s: float) -> bool:
    """Wait for a window; return whether the threads that were started since the meter was made are busy in it.

    They are if they used more than a fifth of a processor, or if one is ready to run at the end: on a machine
    without a free processor, a thread that never sleeps mostly waits for one.
    """
    began_s = time.monotonic()
    before = _used_ns(meter)
    threading.Event().wait(window_s)
    after = _used_ns(meter)
    window_ns = (time.monotonic() - began_s) * 1e9
    used_ns = sum(now - before.get(thread, 0) for thread, now in after.items())
    return used_ns > 0.2 * window_ns or any(map(_is_ready, after))


def _used_ns(meter: LeakMeter) -> dict[int, int]:
    """Native id of a thread → the processor time that it has used."""
    used = dict[int, int]()
    for thread in meter.threads():
        native_id = thread.native_id or 0
        # The kernel's clock of a thread, as pthread_getcpuclockid makes it, which crashes for a thread that has ended.
        with suppress(OSError):
            used[native_id] = time.clock_gettime_ns((~native_id << 3) | 6)
    return used


def _is_ready(native_id: int) -> bool:
    """Whether a thread runs, or waits for a processor, whose time is counted only once the wait is over."""
    with suppress(psutil.Error):
        return bool(psutil.Process(native_id).status() == psutil.STATUS_RUNNING)
    return False


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


def _temporary_files() -> set[str]:
    # Each check has a folder of its own for temporary files.
    return {entry.name for entry in Path(tempfile.gettempdir()).iterdir()}
