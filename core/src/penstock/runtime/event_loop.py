"""A queue of events and the one thread that handles them, now or after a delay."""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from penstock.errors import StreamingStateError
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.threads import EngineThread, contain_errors

E = TypeVar("E")


class EventLoop(Generic[E]):
    """Handles events one at a time, first in, first out, on a thread called ``name``.

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
        # None ends the loop.
        self._events: queue.SimpleQueue[E | None] = queue.SimpleQueue()
        self._thread = EngineThread(name, self._run)
        self._delayed: _DelayedPosts[E] = _DelayedPosts(f"{name} timer", self.post, clock or SystemClock())
        self._stopped = False

    @property
    def is_exclusive_here(self) -> bool:
        """Whether no handler runs beside the caller: it is on the loop's thread, or the loop has not started."""
        return self._thread.ident in (None, threading.get_ident())

    def start(self) -> None:
        """Start the thread, once."""
        if self._stopped or self._thread.ident is not None:
            raise StreamingStateError(f"the event loop {self._thread.name} can be started only once")
        self._thread.start()

    def post(self, event: E) -> None:
        """Add an event; ignored after ``stop``."""
        if not self._stopped:
            self._events.put(event)

    def post_later(self, delay_ms: float, event: E) -> None:
        """Add an event once a delay has passed on the loop's clock; dropped if the loop stops before."""
        if not self._stopped:
            self._delayed.add(delay_ms, event)

    def stop(self, timeout_s: float | None = None, *, drain: bool = False) -> None:
        """Finish the current event, drop the others, and wait for the thread up to ``timeout_s``. Idempotent.

        With ``drain``, handle the queued events first; delayed ones are dropped all the same.
        """
        self._delayed.stop()
        if not drain:
            self._stopped = True
        self._events.put(None)
        self._thread.finish(timeout_s)
        self._stopped = True

    def _run(self) -> None:
        while (event := self._events.get()) is not None and not self._stopped:
            contain_errors(partial(self._on_receive, event), self._on_error)


class _DelayedPosts(Generic[E]):
    """Posts events when they are due, in the order of their due times. Its thread starts with the first event."""

    def __init__(self, name: str, post: Callable[[E], None], clock: Clock) -> None:
        self._post = post
        self._clock = clock
        # Due time on the monotonic clock, order of addition, event.
        self._heap: list[tuple[float, int, E]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()
        # Set when the earliest due time may have changed.
        self._changed = threading.Event()
        self._thread = EngineThread(name, self._run)
        self._stopped = False

    def add(self, delay_ms: float, event: E) -> None:
        with self._lock:
            if self._stopped:
                return
            heapq.heappush(self._heap, (self._clock.monotonic_ms() + delay_ms, next(self._order), event))
            self._changed.set()
            if self._thread.ident is None:
                self._thread.start()
        self._clock.wake()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._heap.clear()
            self._changed.set()
        self._clock.wake()

    def _run(self) -> None:
        while not self._stopped:
            with self._lock:
                now_ms = self._clock.monotonic_ms()
                while self._heap and self._heap[0][0] <= now_ms:
                    self._post(heapq.heappop(self._heap)[2])
                next_ms = self._heap[0][0] if self._heap else None
                # Not while stopping: the event then ends the wait below at once.
                if not self._stopped:
                    self._changed.clear()
            if next_ms is None:
                self._changed.wait()
            else:
                self._clock.wait_for(next_ms - now_ms, self._changed)
