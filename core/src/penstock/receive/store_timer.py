"""``StoreTimer``: adds up what the threads of a receiver wait for. Called per block or per wait, never per record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from penstock.listen.events import StoreTimes
from penstock.runtime.clock import Clock

#: What a thread waits for. The last three are of the engine's threads, which store and report the buffered records.
Activity = Literal["limiter", "buffer", "disk", "driver", "encoding", "storing", "reporting"]
_OF_ENGINE = {"encoding", "storing", "reporting"}


class StoreTimer:
    """Times the waits of a receiver's threads; ``cpu_s`` is the CPU time of the caller's thread."""

    def __init__(self, clock: Clock, cpu_s: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._cpu_s = cpu_s
        # The waits in progress: the thread, what it waits for, and the monotonic time in ms since when.
        self._waits = list[tuple[threading.Thread, Activity, float]]()
        self._totals_ms = dict.fromkeys(("elapsed", "code", *get_args(Activity)), 0.0)
        # The waits up to here are in the totals.
        self._added_ms = clock.monotonic_ms()
        # The threads that have stored since then, and the CPU time of each thread when it was last seen.
        self._storing = set[int]()
        self._cpu_seen_s: dict[int, float] = {}
        self._is_disk_full = False
        self._lock = threading.Lock()

    def note_code(self) -> None:
        """Count the CPU time of the caller's thread, which is about to store, since it was last seen."""
        ident, cpu_s = threading.get_ident(), self._cpu_s()
        with self._lock:
            # The system may have given an ended thread's number to this one.
            self._totals_ms["code"] += max(cpu_s - self._cpu_seen_s.get(ident, cpu_s), 0) * 1000
            self._cpu_seen_s[ident] = cpu_s
            self._storing.add(ident)

    @contextmanager
    def waiting(self, activity: Activity) -> Iterator[None]:
        """Count the caller's thread as waiting while it is in this block."""
        if activity not in _OF_ENGINE:
            self.note_code()
        wait = threading.current_thread(), activity, self._clock.monotonic_ms()
        with self._lock:
            self._waits.append(wait)
        try:
            yield
        finally:
            with self._lock:
                self._waits.remove(wait)
                self._add(*wait[1:], self._clock.monotonic_ms())
                # Blocks are encoded and written in it.
                self._cpu_seen_s[threading.get_ident()] = self._cpu_s()

    def held_ms(self) -> list[tuple[threading.Thread, float]]:
        """The threads that wait for the rate limit or for room in the buffer, and for how long, in ms."""
        with self._lock:
            now_ms, waits = self._clock.monotonic_ms(), list(self._waits)
        return [(thread, now_ms - since_ms) for thread, what, since_ms in waits if what in ("limiter", "buffer")]

    def disk_full(self, is_full: bool) -> None:
        """Count the waits for the rate limit, which pauses the receiver while the disk is full, as waits for it."""
        with self._lock:
            self._add_all()
            self._is_disk_full = is_full

    def times(self) -> StoreTimes:
        """The totals, with the waits that have not ended."""
        with self._lock:
            self._add_all()
            return StoreTimes(**{activity: round(total_ms) for activity, total_ms in self._totals_ms.items()})

    def _add_all(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for _thread, activity, since_ms in self._waits:
            self._add(activity, since_ms, now_ms)
        waiting = {thread.ident or 0 for thread, activity, _since in self._waits if activity not in _OF_ENGINE}
        self._totals_ms["elapsed"] += (now_ms - self._added_ms) * max(len(self._storing | waiting), 1)
        self._storing = waiting
        self._added_ms = now_ms

    def _add(self, activity: Activity, since_ms: float, now_ms: float) -> None:
        name = "disk" if activity == "limiter" and self._is_disk_full else activity
        self._totals_ms[name] += now_ms - max(since_ms, self._added_ms)
