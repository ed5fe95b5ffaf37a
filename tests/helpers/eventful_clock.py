"""``EventfulClock``: the time of a test with one thread, which passes while that thread waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest


class EventfulClock:
    """A clock for one thread: who waits is there, unless something happens before."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        #: When, and what; in order.
        self.events: list[tuple[float, Callable[[], object]]] = []
        self.waits = 0

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms

    def elapsed_ms(self) -> float:
        return self.time_ms

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        self.waits += 1
        if self.waits > 1_000_000:
            pytest.fail(f"somebody waits for ever, at {self.time_ms:.0f} ms")
        until_ms = self.time_ms + duration_ms
        while self.events and self.events[0][0] <= until_ms:
            time_ms, event = self.events.pop(0)
            self.time_ms = max(self.time_ms, time_ms)
            event()
            if cancelled.is_set():
                return
        self.time_ms = until_ms

    def wake(self) -> None:
        """Nobody else waits."""
