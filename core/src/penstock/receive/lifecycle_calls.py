"""Calls of a receiver's ``onStart``, ``onStop`` and ``on_drained``: whether they return, and in time.

Holds no lock while the receiver's code runs. The supervisor decides what an overdue call means.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock import conf
from penstock.runtime.clock import Clock
from penstock.runtime.threads import EngineThread


class OnStartCall:
    """The call of ``onStart``: whether it runs, since when, and whether a stop or restart interrupts it.

    Args:
        clock: times it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        # Set while onStart does not run, and once it was abandoned.
        self._over = threading.Event()
        self._over.set()
        self._stop_requested = False
        # When it began (monotonic ms); None when it does not run or was found overdue.
        self._began_ms: float | None = None
        #: Whether a stop or restart came while the last call ran; whether nobody waits for it any more.
        self.interrupted = self.abandoned = False

    def begin(self, on_begin: Callable[[], object]) -> bool:
        """Call ``on_begin`` and return true if ``onStart`` may be called: not once a stop was requested.

        Args:
            on_begin: must not block; an interruption comes after it.
        """
        with self._lock:
            if self._stop_requested:
                return False
            on_begin()
            self.interrupted = False
            self._began_ms = self._clock.monotonic_ms()
            self._over.clear()
            return True

    def end(self) -> None:
        """Note that it has returned or raised."""
        with self._lock:
            self._began_ms = None
            self._over.set()
        self._clock.wake()

    def interrupt(self, on_interrupt: Callable[[], object], *, is_final: bool) -> None:
        """Call ``on_interrupt``, which makes ``onStart`` end, if it runs.

        Args:
            on_interrupt: must not block.
            is_final: ``onStart`` must not be called again.
        """
        with self._lock:
            self._stop_requested = self._stop_requested or is_final
            if not self._over.is_set():
                self.interrupted = True
                on_interrupt()

    def abandon(self) -> bool:
        """Wait for it no longer; return whether it still runs."""
        with self._lock:
            if self._over.is_set():
                return False
            self.abandoned = True
            self._over.set()
        self._clock.wake()
        return True

    def wait(self, timeout_ms: float) -> bool:
        """Wait until it is over; return whether it is. A timeout of 0 is none."""
        return _wait(self._clock, self._over, timeout_ms)

    def is_overdue(self, timeout_ms: float) -> bool:
        """Whether it has run for this long; true once per call."""
        began_ms = self._began_ms
        if began_ms is None or self._clock.monotonic_ms() - began_ms < timeout_ms:
            return False
        self._began_ms = None
        return True


def not_returned(name: str, timeout_ms: float, *, after_stop: bool = False) -> str:
    """That a method of the receiver exceeded its timeout, and the key that sets it."""
    key = conf.key("start_timeout_ms" if name == "onStart" and not after_stop else "stop_timeout_ms")
    return f"{name} has not returned for {timeout_ms / 1000:g} s{' after a stop' * after_stop} ({key})"


def call_within(
    clock: Clock,
    timeout_ms: float,
    name: str,
    method: Callable[[], object],
    on_error: Callable[[BaseException], object],
) -> bool:
    """Call a method on a thread of its own, since the caller must not wait for longer than a timeout.

    Args:
        clock: times the call.
        timeout_ms: 0 for none.
        name: of the method.
        method: the receiver's.
        on_error: called with what it raises, on the caller's thread.

    Returns:
        Whether it has returned or raised in time.
    """
    over, raised = threading.Event(), list[BaseException]()

    def call() -> None:
        try:
            method()
        except BaseException as error:
            raised.append(error)
        finally:
            over.set()
            clock.wake()

    EngineThread(f"receiver {name}", call).start()
    if not _wait(clock, over, timeout_ms):
        return False
    for error in raised:
        on_error(error)
    return True


def _wait(clock: Clock, event: threading.Event, timeout_ms: float) -> bool:
    if timeout_ms and not event.is_set():
        clock.wait_for(timeout_ms, event)
    elif not timeout_ms:
        event.wait()
    return event.is_set()
