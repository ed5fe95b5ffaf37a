"""``ReceiverWorkers`` finds the threads and processes that a receiver starts, and ends them as a crash does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import thread as executors
from types import FrameType
from typing import Any, Self

from penstock import Receiver
from penstock.spi import EngineThread
from penstock_testing.leaks import children


class WorkerEnded(Exception):
    """Raised in a receiver's thread, as an unexpected error."""

    def __init__(self) -> None:
        super().__init__("the conformance kit ended this thread")


class ReceiverWorkers:
    """While entered, records each thread that the receiver's code starts, and each child process of this process.

    Args:
        receiver: a receiver that is not started yet.
        can_end: whether ``end_threads`` will be called; the threads then run at a fraction of their speed.
    """

    def __init__(self, receiver: Receiver[Any], *, can_end: bool = False) -> None:
        self._receiver = receiver
        self._can_end = can_end
        self._threads: list[threading.Thread] = []
        # A thread pool catches the errors of its tasks: they do not end its threads.
        self._pooled: list[threading.Thread] = []
        # Threads that are to end when they next call a function or return from a call.
        self._ending: set[threading.Thread] = set()
        self._others = children()

    def __enter__(self) -> Self:
        start = self._start = threading.Thread.start

        def recorded(thread: threading.Thread) -> None:
            if self._is_own(thread):
                (self._pooled if _is_pooled(thread) else self._threads).append(thread)
                if self._can_end and not _is_pooled(thread):
                    thread.run = self._ended_on_demand(thread)  # type: ignore[method-assign]
            start(thread)

        threading.Thread.start = recorded  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_error: object) -> None:
        threading.Thread.start = self._start  # type: ignore[method-assign]

    def alive(self) -> list[str]:
        """Names of the threads and processes that run."""
        return [*map(_name, self._alive_threads()), *map(_name, self._processes())]

    def alive_threads(self) -> list[str]:
        """Names of the threads that run, also of those in thread pools."""
        return [_name(thread) for thread in (*self._threads, *self._pooled) if thread.is_alive()]

    def end_threads(self) -> list[str]:
        """Raise ``WorkerEnded`` in every thread at its next call or return of a function; return the threads' names."""
        threads = self._alive_threads()
        self._ending.update(threads)
        return list(map(_name, threads))

    def kill_processes(self) -> list[str]:
        """Kill every process; return their names."""
        processes = self._processes()
        for process in processes:
            os.kill(process, signal.SIGKILL)
        return list(map(_name, processes))

    def _ended_on_demand(self, thread: threading.Thread) -> Callable[[], None]:
        """The function that the thread runs, with a profile function that ends it.

        ``PyThreadState_SetAsyncExc`` is not used: while its exception is pending for a blocked thread, every traced
        thread of Python 3.11 hangs in its next call, as under coverage.
        """
        run = thread.run

        def end_on_demand(_frame: FrameType, _event: str, _arg: object) -> None:
            if thread in self._ending:
                self._ending.discard(thread)
                raise WorkerEnded

        def profiled() -> None:
            sys.setprofile(end_on_demand)
            try:
                run()
            finally:
                sys.setprofile(None)

        return profiled

    def _alive_threads(self) -> list[threading.Thread]:
        return [thread for thread in self._threads if thread.is_alive()]

    def _processes(self) -> list[int]:
        return sorted(children() - self._others)

    def _is_own(self, thread: threading.Thread) -> bool:
        """Whether the receiver's code starts this thread, now."""
        # Frames: this method's, the recorder's, the starter's.
        starter = frame = sys._getframe(2)
        # The core starts its own threads in calls by the receiver.
        if isinstance(thread, EngineThread) and starter.f_locals.get("self") is not self._receiver:
            return False
        while frame is not None:
            if frame.f_locals.get("self") is self._receiver:
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return threading.current_thread() in self._threads


def _is_pooled(thread: threading.Thread) -> bool:
    return getattr(thread, "_target", None) is executors._worker


def _name(worker: threading.Thread | int) -> str:
    return f"process {worker}" if isinstance(worker, int) else f"thread {worker.name!r}"
