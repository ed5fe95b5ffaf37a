"""The listener bus: delivers every event to every listener, each on its own thread.

A slow listener delays no other: events that do not fit its queue are dropped and counted. Errors of a listener are
counted and logged at most every ten minutes; several consecutive errors disable it. A listener whose class sets
``never_drop = True`` (rate control, progress, allocation) has an unbounded queue. ``post`` never blocks; any thread may
call it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from penstock import conf
from penstock.errors import StreamingStateError
from penstock.listen.events import HOOK_OF, Event, callbacks_of
from penstock.listen.listener_counts import ListenerCounts
from penstock.listen.streaming_listener import EventView, is_streaming_listener
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("listener_bus")


class _Listener:
    """A listener with its queue and thread."""

    def __init__(
        self,
        target: object,
        label: str,
        callbacks: Mapping[str, Callable[[Any], object]],
        queue_size: int,
        max_failures: int,
    ) -> None:
        self.target, self.label = target, label
        self._callbacks, self._max_failures = callbacks, max_failures
        self._wants_view = is_streaming_listener(target)
        # None ends the thread.
        self._events: queue.Queue[Event | None] = queue.Queue(0 if getattr(target, "never_drop", False) else queue_size)
        self._thread = EngineThread(f"listener {label}", self._run)
        self._consecutive_failures = 0
        self.dropped = self.failed = 0
        self.disabled = False

    def start(self) -> None:
        self._thread.start()

    def offer(self, event: Event) -> None:
        if self.disabled or HOOK_OF[type(event)] not in self._callbacks:
            return
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self.dropped += 1
            log.warning(
                "listener too slow, events dropped",
                listener=self.label,
                dropped=self.dropped,
                key=conf.key("listener_queue_size"),
                throttle_s=600,
            )

    def stop(self, deadline: float) -> None:
        """Let the thread handle the queued events until the deadline (monotonic seconds)."""
        try:
            self._events.put(None, timeout=max(deadline - time.monotonic(), 0.001))
            has_ended = self._thread.finish(max(deadline - time.monotonic(), 0.001))
        except queue.Full:
            has_ended = False
        self.disabled = self.disabled or not has_ended

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            if not self.disabled:
                self._deliver(event)

    def _deliver(self, event: Event) -> None:
        hook = HOOK_OF[type(event)]
        try:
            self._callbacks[hook](EventView(event) if self._wants_view else event)
        # A listener ends at most itself, also by SystemExit or by the panic of an extension written in Rust, which are
        # no Exception. Ctrl-C does not reach this thread.
        except BaseException:
            self.failed += 1
            self._consecutive_failures += 1
            log.exception("listener failed", listener=self.label, hook=hook, failed=self.failed, throttle_s=600)
            if self._consecutive_failures >= self._max_failures:
                self.disabled = True
                log.error(
                    "listener disabled",
                    listener=self.label,
                    consecutive_failures=self._consecutive_failures,
                    key=conf.key("listener_max_failures"),
                )
        else:
            self._consecutive_failures = 0


class ListenerBus:
    """Delivers events.

    Args:
        queue_size: events that may wait for one listener.
        max_failures: consecutive errors after which a listener is disabled.
    """

    def __init__(self, queue_size: int, max_failures: int) -> None:
        self._queue_size, self._max_failures = queue_size, max_failures
        self._listeners: list[_Listener] = []
        # Listeners added so far, by origin: one plugin may bring several.
        self._added: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._started = self._stopped = False

    def add(self, target: object, origin: str = "") -> None:
        """Add a listener: any object with one or more of the ``on…`` methods.

        Args:
            target: the listener.
            origin: the plugin or class it comes from, for messages; its class by default.

        Raises:
            TypeError: the object has none of the methods.
            StreamingStateError: the bus has stopped.
        """
        callbacks = callbacks_of(target)
        if not callbacks:
            raise TypeError(
                f"{type(target).__name__} is not a listener: it has none of the methods {', '.join(HOOK_OF.values())}"
            )
        origin = origin or f"{type(target).__module__}.{type(target).__qualname__}"
        with self._lock:
            if self._stopped:
                raise StreamingStateError("no listener can be added after the context was stopped")
            self._added[origin] += 1
            label = origin if self._added[origin] == 1 else f"{origin} #{self._added[origin]}"
            listener = _Listener(target, label, callbacks, self._queue_size, self._max_failures)
            self._listeners.append(listener)
            if self._started:
                listener.start()

    def remove(self, target: object) -> None:
        """Remove a listener after it has handled its queued events. An unknown one is ignored."""
        with self._lock:
            leaving = [listener for listener in self._listeners if listener.target is target]
            self._listeners = [listener for listener in self._listeners if listener.target is not target]
        for listener in leaving:
            listener.stop(time.monotonic() + 1)

    def counts(self) -> list[ListenerCounts]:
        """The counts of every listener, in the order in which they were added."""
        with self._lock:
            return [ListenerCounts(each.label, each.dropped, each.failed, each.disabled) for each in self._listeners]

    def start(self) -> None:
        """Start to deliver."""
        with self._lock:
            self._started = True
            for listener in self._listeners:
                listener.start()

    def post(self, event: Event) -> None:
        """Queue an event for every listener."""
        with self._lock:
            listeners = [] if self._stopped else self._listeners
            for listener in listeners:
                listener.offer(event)

    def stop(self, timeout_s: float) -> None:
        """Accept no more events; wait until all queued ones are handled, at most ``timeout_s``."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            listeners = self._listeners if self._started else []
        deadline = time.monotonic() + timeout_s
        for listener in listeners:
            listener.stop(deadline)
