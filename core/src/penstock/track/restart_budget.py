"""``RestartBudget``: how many failures of a receiver are made good by a restart.

Owns the times of one receiver's last failures. Pure: is given the time, reads no clock. Used on the tracker's loop.
"""

from __future__ import annotations

from collections import deque


class RestartBudget:
    """So many restarts in any window of time.

    Args:
        max_restarts: failures in one window that are made good; the next one is too many.
        window_ms: how long a failure counts.
    """

    def __init__(self, max_restarts: int, window_ms: float) -> None:
        self._max_restarts, self._window_ms = max_restarts, window_ms
        # Those that can still make the budget spent: one more than it has restarts.
        self._failed_at_ms: deque[float] = deque(maxlen=max_restarts + 1)

    def note_failure(self, now_ms: float) -> bool:
        """Count a failure; say whether a restart makes it good."""
        self._failed_at_ms.append(now_ms)
        return not self.is_spent(now_ms)

    def is_spent(self, now_ms: float) -> bool:
        """Whether there were too many failures in the window that ends now."""
        return len(self._failed_at_ms) > self._max_restarts and now_ms - self._failed_at_ms[0] < self._window_ms
