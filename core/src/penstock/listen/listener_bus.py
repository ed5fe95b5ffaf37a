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

from penstock import conf
from penstock.errors import StreamingStateError
from penstock.listen.events import HOOK_OF, Event
from penstock.listen.registered_listener import ListenerCounts, RegisteredListener, register
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("listener_bus")

#: Consecutive errors after which a listener is disabled.
MAX_FAILURES = 10


class _Queue:
    """The queued events of a listener, and the thread that delivers them."""

    def __init__(self, listener: RegisteredListener, label: str, queue_size: int, max_failures: int) -> None:
        self.listener = listener
        self.label = label
        self._max_failures = max_failures
        # None ends the thread.
        self._events: queue.Queue[Event | None] = queue.Queue(0 if listener.never_drop else queue_size)
        self._thread = EngineThread(f"listener {label}", self._run)
        self._consecutive_failures = 0
        self.dropped = 0
        self.failed = 0
        self.disabled = False

    @property
    def counts(self) -> ListenerCounts:
        return ListenerCounts(self.label, self.dropped, self.failed, self.disabled)

    def start(self) -> None:
        self._thread.start()

    def offer(self, event: Event) -> None:
        if self.disabled or type(event) not in self.listener.callbacks:
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
        try:
            self.listener.callbacks[type(event)](event)
        # A listener ends at most itself, also by SystemExit or by the panic of an extension written in Rust, which are
        # no Exception. Ctrl-C does not reach this thread.
        except BaseException:
            self.failed += 1
            self._consecutive_failures += 1
            hook = HOOK_OF[type(event)]
            log.exception("listener failed", listener=self.label, hook=hook, failed=self.failed, throttle_s=600)
            if self._consecutive_failures >= self._max_failures:
                self.disabled = True
                log.error("listener disabled", listener=self.label, consecutive_failures=self._consecutive_failures)
        else:
            self._consecutive_failures = 0


class ListenerBus:
    """Delivers events; disables a listener after ``max_failures`` consecutive errors."""

    def __init__(self, queue_size: int, max_failures: int = MAX_FAILURES) -> None:
        self._queue_size = queue_size
        self._max_failures = max_failures
        self._queues: list[_Queue] = []
        # Listeners added so far, by origin: one plugin may bring several.
        self._added: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._started = False
        self._stopped = False

    def add(self, target: object) -> None:
        """Add a listener: a ``RegisteredListener``, or any object that ``register`` accepts.

        Raises:
            TypeError: the object has none of the ``on…`` methods.
            StreamingStateError: the bus has stopped.
        """
        listener = target if isinstance(target, RegisteredListener) else register(target)
        origin = listener.origin
        with self._lock:
            if self._stopped:
                raise StreamingStateError("no listener can be added after the context was stopped")
            self._added[origin] += 1
            label = origin if self._added[origin] == 1 else f"{origin} #{self._added[origin]}"
            self._queues.append(_Queue(listener, label, self._queue_size, self._max_failures))
            if self._started:
                self._queues[-1].start()

    def remove(self, target: object) -> None:
        """Remove a listener after it has handled its queued events. An unknown one is ignored."""
        with self._lock:
            leaving = [events for events in self._queues if events.listener.target is target]
            self._queues = [events for events in self._queues if events.listener.target is not target]
        for removed in leaving:
            removed.stop(time.monotonic() + 1)

    def counts(self) -> list[ListenerCounts]:
        """Return the counts of every listener, in the order in which they were added."""
        with self._lock:
            return [events.counts for events in self._queues]

    def start(self) -> None:
        """Start to deliver."""
        with self._lock:
            self._started = True
            for events in self._queues:
                events.start()

    def post(self, event: Event) -> None:
        """Queue an event for every listener."""
        with self._lock:
            for events in [] if self._stopped else self._queues:
                events.offer(event)

    def stop(self, timeout_s: float) -> None:
        """Accept no more events; wait until all queued ones are handled, at most ``timeout_s``."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            queues = self._queues if self._started else []
        deadline = time.monotonic() + timeout_s
        for events in queues:
            events.stop(deadline)
