"""``Tally``: counts what could not be stored as it came, and says when it is time to tell.

Owns the counts of one receiver, over all its connections. Never reports by itself. Runs on the receiver's thread.
"""

from __future__ import annotations

from collections import Counter

# Hostile input must not become a flood of reports.
_PAUSE_S = 1.0


class Tally:
    """Counts by reason; reports at most once a second."""

    def __init__(self) -> None:
        self._new: Counter[str] = Counter()
        #: What was counted so far, by reason.
        self.counts: Counter[str] = Counter()
        self._told_s = float("-inf")

    def add(self, reason: str, count: int) -> None:
        """So many more, for this reason."""
        if count:
            self._new[reason] += count
            self.counts[reason] += count

    def due_s(self, now_s: float) -> float | None:
        """How long until it is time to tell, ``None`` when there is nothing to tell."""
        return max(0.0, self._told_s + _PAUSE_S - now_s) if self._new else None

    def tell(self, now_s: float) -> str:
        """What is new, in words; from now on it is not new any more."""
        self._told_s = now_s
        told = ", ".join(f"{reason}: {count} ({self.counts[reason]} in all)" for reason, count in self._new.items())
        self._new.clear()
        return told
