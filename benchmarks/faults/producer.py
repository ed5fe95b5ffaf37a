"""``Producer``: publishes consecutive numbers at a rate, and remembers which the broker has confirmed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Self

_INTERVAL_S = 0.05
# After an error of the broker.
_PAUSE_S = 0.2


class Producer:
    """Publishes numbers, on a thread of its own, inside a ``with`` block. A number is never published twice.

    Args:
        publish: publishes numbers and returns when the broker has confirmed them.
        disconnect: called after an error of ``publish``.
        rate: numbers per second.
    """

    def __init__(self, publish: Callable[[Sequence[int]], None], disconnect: Callable[[], None], rate: float) -> None:
        self._publish = publish
        self._disconnect = disconnect
        self._rate = rate
        self._ended = threading.Event()
        self._running = threading.Event()
        self._running.set()
        # Held while numbers are published.
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        #: Confirmed numbers. All published ones, confirmed or not, are below ``begun``.
        self.confirmed: set[int] = set()
        self.begun = 0
        #: The calls that failed.
        self.failures = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Publish no more."""
        self._ended.set()
        self._running.set()
        self._thread.join()

    def pause(self) -> None:
        """Publish nothing until ``resume``; returns when nothing is being published."""
        self._running.clear()
        with self._lock:
            pass

    def resume(self) -> None:
        """Publish again."""
        self._running.set()

    def _run(self) -> None:
        due, before_s = 0.0, monotonic()
        while not self._ended.wait(_INTERVAL_S):
            if not self._running.is_set():
                self._running.wait()
                before_s = monotonic()
            now_s = monotonic()
            # What was due during an outage is not published in one go afterwards.
            due, before_s = due + min(now_s - before_s, 1.0) * self._rate, now_s
            with self._lock:
                if self._running.is_set() and due >= 1:
                    self._publish_next(int(due))
                    due %= 1

    def _publish_next(self, count: int) -> None:
        numbers = range(self.begun, self.begun + count)
        self.begun = numbers.stop
        try:
            self._publish(numbers)
        # A client raises errors of its own while its broker is down.
        except Exception:
            self.failures += 1
            with contextlib.suppress(Exception):
                self._disconnect()
            self._ended.wait(_PAUSE_S)
        else:
            self.confirmed.update(numbers)
