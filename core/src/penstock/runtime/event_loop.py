"""A queue of events and the one thread that handles them, now or after a delay."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from penstock.errors import StreamingStateError
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.threads import EngineThread, contain_errors

E = TypeVar("E")


class EventLoop(Generic[E]):
    """Handles events one at a time, first due, first out, on a thread called ``name``.

    An error of ``on_receive`` goes to ``on_error``, and the loop continues. The clock times the delayed events.
    """

    def __init__(
        self,
        name: str,
        on_receive: Callable[[E], None],
        on_error: Callable[[BaseException], None],
        clock: Clock | None = None,
    ) -> None:
        self._on_receive = on_receive
        self._on_error = on_error
        self._clock = clock or SystemClock()
        self._thread = EngineThread(name, self._run)
        # The lock guards these. A heap of due time on the monotonic clock, order of addition, and event.
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, E]] = []
        self._order = itertools.count()
        self._stopped = False
        # Set when the first event of the heap may have changed, and when the loop stops.
        self._changed = threading.Event()

    def start(self) -> None:
        """Start the thread, once."""
        if self._stopped or self._thread.ident is not None:
            raise StreamingStateError(f"the event loop {self._thread.name} can be started only once")
        self._thread.start()

    def post(self, event: E) -> None:
        """Add an event; ignored after ``stop``."""
        self.post_later(0, event)

    def post_later(self, delay_ms: float, event: E) -> None:
        """Add an event once a delay has passed on the loop's clock; dropped if the loop stops before."""
        with self._lock:
            if self._stopped:
                return
            heapq.heappush(self._heap, (self._clock.monotonic_ms() + delay_ms, next(self._order), event))
            self._changed.set()
        self._clock.wake()

    def stop(self, timeout_s: float | None = None, *, drain: bool = False) -> None:
        """Finish the current event, drop the others, and wait for the thread up to ``timeout_s``. Idempotent.

        With ``drain``, handle the queued events first; delayed ones are dropped all the same.
        """
        with self._lock:
            self._stopped = True
            now_ms = self._clock.monotonic_ms()
            # A sorted list is a heap.
            self._heap = sorted(entry for entry in self._heap if drain and entry[0] <= now_ms)
            self._changed.set()
        self._clock.wake()
        self._thread.finish(timeout_s)
        with self._lock:
            self._heap.clear()

    def _run(self) -> None:
        while (entry := self._take()) is not None:
            contain_errors(partial(self._on_receive, entry[2]), self._on_error)

    def _take(self) -> tuple[float, int, E] | None:
        """Wait for the next event that is due; ``None`` once the loop has stopped and drained."""
        while True:
            with self._lock:
                now_ms = self._clock.monotonic_ms()
                if self._heap and (self._stopped or self._heap[0][0] <= now_ms):
                    return heapq.heappop(self._heap)
                if self._stopped:
                    return None
                next_ms = self._heap[0][0] if self._heap else None
                self._changed.clear()
            if next_ms is None:
                self._changed.wait()
            else:
                self._clock.wait_for(next_ms - now_ms, self._changed)
