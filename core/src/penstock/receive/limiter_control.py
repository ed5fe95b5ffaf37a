"""``LimiterControl``: applies the desired state from the driver, and a full disk, to a receiver's rate limiter."""

from __future__ import annotations

import threading

from attrs import evolve, frozen

from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.log import get_logger

log = get_logger("receiver_supervisor")


@frozen
class _DesiredState:
    number: int = 0
    paused: bool = False
    disk_full: bool = False

    @property
    def pauses(self) -> bool:
        return self.paused or self.disk_full


class LimiterControl:
    """Set rate and pause of a limiter. Thread-safe."""

    def __init__(self, limiter: RateLimiter, stream_id: int) -> None:
        self._limiter, self._stream_id = limiter, stream_id
        self._desired = _DesiredState()
        self._lock = threading.Lock()

    def apply(self, number: int, rate: float | None, paused: bool | None) -> bool:
        """Apply a desired state unless one with a higher number was applied before; return whether the rate changed.

        Args:
            number: the desired state's number.
            rate: records/s, infinite for no limit but the configured maximum; ``None`` leaves it unchanged.
            paused: hold every store; ``None`` leaves that unchanged.
        """
        with self._lock:
            if number < self._desired.number:
                return False
            before = self._limiter.rate
            paused = self._desired.paused if paused is None else paused
            self._change(evolve(self._desired, number=number, paused=paused))
            if rate is not None:
                self._limiter.update(rate)
            return self._limiter.rate != before

    def set_disk_full(self, disk_full: bool) -> None:
        """Hold every store while the disk is full."""
        with self._lock:
            self._change(evolve(self._desired, disk_full=disk_full))

    def _change(self, desired: _DesiredState) -> None:
        before, self._desired = self._desired, desired
        if desired.pauses != before.pauses:
            log.info(
                "receiver paused" if desired.pauses else "receiver resumed",
                stream_id=self._stream_id,
                disk_full=desired.disk_full,
            )
            self._limiter.pause(desired.pauses)
