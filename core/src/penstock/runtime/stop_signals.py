"""``StopSignals``: handles SIGTERM and Ctrl-C while a context is active.

A handler runs between two steps of the main thread, which may hold any lock, so it only queues the signal's number.
Another thread reports it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("signals")


class StopSignals:
    """Reports SIGTERM and SIGINT to ``on_signal``, on a thread of its own, and still calls the program's own handlers.

    Python sets handlers on the main thread only. When ``restore`` is called elsewhere, the handlers stay until the next
    signal, which restores its previous handler and raises the signal again.
    """

    def __init__(self, on_signal: Callable[[int], object]) -> None:
        self._on_signal = on_signal
        # A SimpleQueue is reentrant: a handler may interrupt another put. None ends the thread.
        self._queue: SimpleQueue[int | None] = SimpleQueue()
        self._thread: EngineThread | None = None
        self._closed = False
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        """Set the handlers; signals that the program ignores stay ignored. Does nothing off the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._thread = EngineThread("streaming-signals", self._report)
        self._thread.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)
            if previous in (signal.SIG_IGN, None):
                log.info("signal handler not set", signal=number.name, reason="ignored or handled outside Python")
                continue
            if _is_programs(previous):
                log.info("signal handler set before the program's own", signal=number.name)
            self._previous[number] = previous
            signal.signal(number, self._handle)

    def override_pysparks_interrupt(self) -> None:
        """Make Ctrl-C a plain KeyboardInterrupt.

        PySpark's handler first cancels all jobs, including the receivers', and loses their unprocessed data.
        """
        if threading.current_thread() is threading.main_thread() and _is_pysparks(signal.getsignal(signal.SIGINT)):
            self._previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)

    def restore(self) -> None:
        """Restore the previous handlers, except where the program has set its own since. Main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return
        while self._previous:
            number, previous = self._previous.popitem()
            if signal.getsignal(number) in (self._handle, signal.default_int_handler):
                signal.signal(number, previous)
        self.close()

    def close(self) -> None:
        """Stop reporting, after all queued signals were reported. Idempotent."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.finish()

    def _handle(self, number: int, frame: Any) -> None:
        previous: Any = self._previous.get(number)
        if not self._closed:
            self._queue.put(number)
        # A handler that the program set later may call this one.
        elif signal.getsignal(number) == self._handle:
            signal.signal(number, self._previous.pop(number))
            signal.raise_signal(number)
            return
        if _is_programs(previous):
            previous(number, frame)

    def _report(self) -> None:
        while (number := self._queue.get()) is not None:
            try:
                self._on_signal(number)
            except Exception:
                log.exception("signal not handled", signal=signal.Signals(number).name)


def _is_programs(handler: Any) -> bool:
    return callable(handler) and handler is not signal.default_int_handler and not _is_pysparks(handler)


def _is_pysparks(handler: Any) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
