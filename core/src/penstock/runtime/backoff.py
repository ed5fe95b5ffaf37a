"""How long to wait before trying again.

Owns the growth of the delay. Never waits itself.
"""

from __future__ import annotations

import random


class Backoff:
    """Delays that double from a first to a longest one, with jitter so that many do not retry in step.

    Args:
        first_ms: the delay before the first retry.
        longest_ms: no delay is longer.
        rng: source of the jitter; each delay is between a half and all of its nominal length.
    """

    def __init__(self, first_ms: float, longest_ms: float, rng: random.Random | None = None) -> None:
        self._first_ms, self._longest_ms = first_ms, longest_ms
        self._rng = rng or random.Random()
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many delays were handed out since the last success."""
        return self._failures

    def next_ms(self) -> float:
        """The delay before the next try."""
        nominal = min(self._first_ms * 2.0 ** min(self._failures, 60), self._longest_ms)
        self._failures += 1
        return nominal * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self._failures = 0
