"""``RelaunchPolicy``: decides when an ended receiver is relaunched, and when it is given up. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

from penstock import conf
from penstock.conf import Settings
from penstock.runtime.retry import LONGEST_DELAY_MS, delay_ms_after

# A launch that lived this long was healthy: the next back-off begins at the shortest delay.
_HEALTHY_MS = 10_000


@frozen
class RelaunchPolicy:
    """The back-off of a receiver's relaunches and its failure budget."""

    settings: Settings
    # The delay before the first relaunch.
    first_delay_ms: float = 200

    def relaunches_in_a_row(self, before: int, lived_ms: float) -> int:
        """Return the number of relaunches since a launch was healthy; ``before`` is that of the previous launches."""
        return 0 if lived_ms > _HEALTHY_MS else before

    def back_off_ms(self, relaunches: int, seed: str) -> float:
        """Return the delay before a relaunch: it doubles with each consecutive relaunch. ``seed`` seeds the jitter."""
        return delay_ms_after(relaunches, self.first_delay_ms, LONGEST_DELAY_MS, random.Random(seed))

    def with_failure(self, failures_ms: Sequence[float], now_ms: float) -> tuple[float, ...]:
        """Return the times of the failures that count against the failure budget, with a new one."""
        return (*failures_ms, now_ms)[-(self.settings.max_receiver_failures + 1) :]

    def is_exceeded(self, failures_ms: Sequence[float], now_ms: float) -> bool:
        """Whether more failures than the failure budget allows happened within its window."""
        most, window_ms = self.settings.max_receiver_failures, self.settings.receiver_failure_window_ms
        return len(failures_ms) > most and now_ms - failures_ms[0] < window_ms

    def exceeded_message(self, last_failure: str) -> str:
        """Return the reason for which the receiver is unhealthy or given up."""
        most, window_ms = self.settings.max_receiver_failures, self.settings.receiver_failure_window_ms
        return (
            f"more than {most} failures within {window_ms / 1000:g} s "
            f"({conf.key('max_receiver_failures')}); the last one: {last_failure}"
        )
