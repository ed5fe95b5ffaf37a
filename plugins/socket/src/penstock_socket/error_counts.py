"""``ErrorCounts``: counts rejected or repaired records by reason, for reports at most once a second."""

from __future__ import annotations

from collections import Counter

# Malformed input must not become a flood of reports.
_REPORT_INTERVAL_S = 1.0


class ErrorCounts:
    """The counts of one receiver, over all its connections; used on the receiver's thread."""

    def __init__(self) -> None:
        self._new: Counter[str] = Counter()
        #: All records counted so far, by reason.
        self.counts: Counter[str] = Counter()
        self._reported_s = float("-inf")

    def add(self, reason: str, count: int) -> None:
        """Count records."""
        if count:
            self._new[reason] += count
            self.counts[reason] += count

    def due_s(self, now_s: float) -> float | None:
        """Seconds until the next report is due; ``None`` when there is nothing new."""
        return max(0.0, self._reported_s + _REPORT_INTERVAL_S - now_s) if self._new else None

    def report(self, now_s: float) -> str:
        """Describe what was counted since the last report."""
        self._reported_s = now_s
        text = ", ".join(f"{reason}: {count} ({self.counts[reason]} in total)" for reason, count in self._new.items())
        self._new.clear()
        return text
