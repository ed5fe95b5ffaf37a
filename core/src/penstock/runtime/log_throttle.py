"""``Seldom``: what may happen all the time is told of once in a while.

Owns the time when something was told last. Never tells it itself. Used on one thread.
"""

from __future__ import annotations

import math

from penstock.runtime.clock import Clock

_TELL_AGAIN_MS = 60_000


class Seldom:
    """Say whether something may be told: not again within a minute.

    Args:
        clock: of the engine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last_ms = clock, -math.inf

    def is_due(self) -> bool:
        """Say whether to tell it now; it counts as told then."""
        now_ms = self._clock.monotonic_ms()
        due = now_ms - self._last_ms >= _TELL_AGAIN_MS
        if due:
            self._last_ms = now_ms
        return due
