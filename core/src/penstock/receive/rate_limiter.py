"""The rate limits of receivers: ``RateLimits`` computes them on the driver, ``RateLimiter`` enforces one in the task.

A rate is in records/s and above 0; ``None`` is no limit, from the configuration to the limiter.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import nullcontext

from attrs import define

from penstock.conf import Settings
from penstock.errors import ReceiverStoppedError
from penstock.receive.store_timer import StoreTimer
from penstock.runtime.clock import Clock

_LONGEST_WAIT_MS = 3_600_000.0
# Sums of floats are off by their last bits.
_ROUNDING = 1e-6


@define(eq=False)
class _Request:
    count: int
    # The request passes when this many permits have been earned since the start.
    ticket: float
    # Number of granted permits; 0 if the limiter was stopped first, ``None`` while the request waits.
    granted: int | None = None


class RateLimiter:
    """A token bucket with a queue: a request reserves permits and waits, timed, until they are earned.

    In any period t at most rate x t + burst records pass, first come, first served. All forms of store and all threads
    of a receiver share it. Permits are saved for ``burst_ms``, at least one. While it is paused none are earned.
    """

    def __init__(self, clock: Clock, rate: float | None, burst_ms: int) -> None:
        self.clock = clock
        self._burst_ms = burst_ms
        #: Times all waits of the receiver.
        self.timer = StoreTimer(clock)
        self._rate = rate
        # Totals of permits since the start: earned by time, used by records that have passed.
        self._earned = 1.0
        self._used = 0.0
        self._earned_at_ms = clock.monotonic_ms()
        self._requests: deque[_Request] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._stopped = False
        self._paused = False

    @property
    def burst(self) -> int | None:
        """The most records that pass at once, ``None`` for no limit."""
        return None if self._rate is None else int(self._burst(self._rate))

    def update(self, rate: float | None) -> None:
        """Set the rate."""
        with self._lock:
            self._earn()
            self._rate = rate
            if rate is not None:
                self._resize(int(self._burst(rate)))
            self._earn()
            self._wake()

    def pause(self, paused: bool) -> None:
        """Hold every caller, or resume. A stopped limiter holds none."""
        with self._lock:
            self._earn()
            self._paused = paused
            self._earn()
            self._wake()

    def stop(self) -> None:
        """Fail every caller that waits now or would have to wait later."""
        with self._lock:
            self._earn()
            self._stopped = True
            for request in self._requests:
                request.granted = 0
            self._requests.clear()
            self._wake()

    def start(self) -> None:
        """Let callers wait again after ``stop``."""
        with self._lock:
            self._stopped = False

    def acquire(self, wanted: int) -> int:
        """Wait until records may pass and return how many of ``wanted`` may: all of them, or a full burst.

        Raises ``ReceiverStoppedError`` when stopped, unless all of them may pass without waiting.
        """
        if self._rate is None and not self._paused:
            return wanted
        with self._lock:
            self._earn()
            if self._rate is None:
                if not self._holds:
                    return wanted
                count, reserved = wanted, 0.0
            else:
                reserved = self._requests[-1].ticket if self._requests else self._used
                count = min(wanted, int(self._burst(self._rate)))
                # All or nothing: part of a batch would be stored again by a receiver that resumes before the batch.
                if self._stopped and self._earned - reserved + _ROUNDING < count:
                    raise ReceiverStoppedError(
                        "the receiver is stopped, and its rate limit would make it wait: these records were not stored"
                    )
            request = _Request(count, reserved + count)
            self._requests.append(request)
            self._earn()
        with nullcontext() if request.granted is not None else self.timer.waiting("limiter"):
            while request.granted is None:
                with self._lock:
                    self._earn()
                    wait_ms = _LONGEST_WAIT_MS
                    if self._rate is not None and not self._holds:
                        wait_ms = (request.ticket - self._earned) / self._rate * 1000
                    changed = self._changed
                if request.granted is None:
                    # At least 1 ms, because a coarse clock would spin; bounded, because another check is cheap.
                    self.clock.wait_for(min(max(wait_ms, 1.0), _LONGEST_WAIT_MS), changed)
        if not request.granted:
            raise ReceiverStoppedError(
                "the receiver was stopped while it waited for its rate limit: these records were not stored"
            )
        return wanted if self._rate is None else request.granted

    @property
    def _holds(self) -> bool:
        return self._paused and not self._stopped

    def _burst(self, rate: float) -> float:
        return max(1.0, rate * self._burst_ms / 1000)

    def _resize(self, burst: int) -> None:
        """Reduce the waiting requests to the burst, which may have become smaller."""
        ticket = self._used
        for request in self._requests:
            request.count = min(request.count, burst)
            request.ticket = ticket = ticket + request.count

    def _earn(self) -> None:
        """Add the permits earned since the last call, and grant the requests that they cover."""
        since_ms, self._earned_at_ms = self._earned_at_ms, self.clock.monotonic_ms()
        if self._holds:
            return
        rate = self._rate
        if rate is not None:
            earned = self._earned + (self._earned_at_ms - since_ms) * rate / 1000
            self._earned = min(earned, self._used + self._burst(rate))
        while self._requests and (rate is None or self._earned >= self._requests[0].ticket - _ROUNDING):
            request = self._requests.popleft()
            request.granted = request.count
            # Records that pass without a limit use no permits.
            self._used = self._used if rate is None else request.ticket

    def _wake(self) -> None:
        self._changed.set()
        self._changed = threading.Event()
        self.clock.wake()


def lowest(*rates: float | None) -> float | None:
    """Return the lowest of some rates; ``None`` if none of them is a limit."""
    return min((rate for rate in rates if rate is not None and rate < math.inf), default=None)


class RateLimits:
    """The rate limits of an application's receivers, from estimates and configured maxima. Pure; not thread-safe.

    Changes reach receivers one by one: until all have obeyed, together they may exceed the application's maximum.
    ``estimates`` has the last estimate for each receiver that has one.
    """

    def __init__(self, settings: Settings, stream_ids: Iterable[int]) -> None:
        self._initial_rate = settings.initial_rate_per_s
        self._max_rate = settings.max_rate_per_s
        self._total_rate = settings.max_total_rate_per_s
        self._receiving = set(stream_ids)
        self.estimates: dict[int, float] = {}

    def estimate(self, stream_id: int, rate: float) -> dict[int, float | None]:
        """Use a new estimate for a receiver; return the limits that may have changed."""
        self.estimates[stream_id] = rate
        if self._total_rate is not None:
            return self.limits()
        # No other receiver is concerned: with a thousand of them, a batch brings a thousand estimates.
        return {stream_id: self._wanted(stream_id)} if stream_id in self._receiving else {}

    def give_up(self, stream_id: int) -> dict[int, float | None]:
        """Leave a receiver out; return the limits of the others, which get its share of the maximum."""
        self._receiving.discard(stream_id)
        return self.limits()

    def limits(self) -> dict[int, float | None]:
        """Return the limit of each receiver."""
        wanted = {stream_id: self._wanted(stream_id) for stream_id in sorted(self._receiving)}
        return wanted if self._total_rate is None else dict(shares(wanted, self._total_rate))

    def _wanted(self, stream_id: int) -> float | None:
        return lowest(self.estimates.get(stream_id, self._initial_rate), self._max_rate)


def shares(wanted: Mapping[int, float | None], total: float) -> dict[int, float]:
    """Divide a total: no share exceeds what is wanted, and a smaller share is as large as any other."""
    rest = total
    divided = dict[int, float]()
    by_rate = sorted(wanted.items(), key=lambda item: total if item[1] is None else item[1])
    for number, (stream_id, rate) in enumerate(by_rate):
        even = rest / (len(wanted) - number)
        divided[stream_id] = even if rate is None else min(rate, even)
        rest -= divided[stream_id]
    return divided
