"""``StopSignals``: what SIGTERM and Ctrl-C do while a context is active.

Owns the handlers, and the thread that tells of what they note: a handler runs between two steps of the main thread,
which may hold any lock there is, so that it notes the signal and does no more. Never stops anything itself. Handlers
are set and given back on the main thread; elsewhere nothing happens, and the next signal behind the end finds them
still there: it gives itself back.
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
    """Tell of signals.

    Args:
        on_signal: is told the number of each, on a thread of its own.
    """

    def __init__(self, on_signal: Callable[[int], object]) -> None:
        self._on_signal = on_signal
        # Putting into it is safe in a handler that interrupts another putting.
        self._noted: SimpleQueue[int | None] = SimpleQueue()
        self._thread: EngineThread | None = None
        self._is_over = False
        # What handled them before.
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        """Be told of SIGTERM and SIGINT. A program's own handler is called, too; what it ignores stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._thread = EngineThread("streaming-signals", self._tell)
        self._thread.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            if before in (signal.SIG_IGN, None):
                log.info("a signal is left as it is: it is ignored, or handled outside Python", signal=number.name)
                continue
            if _is_programs(before):
                log.info("the program's own handler is called, too", signal=number.name)
            self._before[number] = before
            signal.signal(number, self._note)

    def take_interrupt_back(self) -> None:
        """Have Ctrl-C be a KeyboardInterrupt and no more.

        PySpark's handler cancels every job first, those of the receivers included, and with them what is stored and not
        yet processed: a graceful stop would come too late.
        """
        if threading.current_thread() is threading.main_thread() and _is_pysparks(signal.getsignal(signal.SIGINT)):
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)

    def give_back(self) -> None:
        """Have signals do what they did before, except where the program has said otherwise since."""
        if threading.current_thread() is not threading.main_thread():
            return
        while self._before:
            number, before = self._before.popitem()
            if signal.getsignal(number) in (self._note, signal.default_int_handler):
                signal.signal(number, before)
        self.close()

    def close(self) -> None:
        """Return when all that was noted has been told: there is nothing left to stop. Harmless when repeated."""
        self._is_over = True
        if self._thread is not None:
            self._noted.put(None)
            self._thread.finish()

    def _note(self, number: int, frame: Any) -> None:
        before: Any = self._before.get(number)
        if not self._is_over:
            self._noted.put(number)
        # Else another's handler has called this one.
        elif signal.getsignal(number) == self._note:
            signal.signal(number, self._before.pop(number))
            signal.raise_signal(number)
            return
        if _is_programs(before):
            before(number, frame)

    def _tell(self) -> None:
        while (number := self._noted.get()) is not None:
            try:
                self._on_signal(number)
            # The next one is to be told all the same.
            except Exception:
                log.exception("a signal had no effect", signal=signal.Signals(number).name)


def _is_programs(handler: Any) -> bool:
    return callable(handler) and handler is not signal.default_int_handler and not _is_pysparks(handler)


def _is_pysparks(handler: Any) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
