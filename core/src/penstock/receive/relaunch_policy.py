"""``RelaunchPolicy``: when a receiver that has ended is relaunched, and when it is given up. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

from penstock import conf
from penstock.conf import Settings
from penstock.runtime.retry import delay_ms_after

# A launch that lived this long was healthy: the next back-off begins at the shortest delay.
_HEALTHY_MS = 10_000


@frozen
class RelaunchPolicy:
    """The back-off of a receiver's relaunches and its failure budget, as configured."""

    settings: Settings

    def relaunches_in_a_row(self, before: int, lived_ms: float) -> int:
        """Return the number of relaunches since a launch was healthy, from that before the launch that has ended."""
        return 0 if lived_ms > _HEALTHY_MS else before

    def back_off_ms(self, relaunches: int, seed: str) -> float:
        """Return the delay before a relaunch: it doubles with each relaunch in a row. ``seed`` seeds the jitter."""
        first_ms = self.settings.relaunch_delay_ms
        longest_ms = self.settings.max_receiver_back_off_ms
        return delay_ms_after(relaunches, first_ms, longest_ms, random.Random(seed))

    def with_failure(self, failures_ms: Sequence[float], now_ms: float) -> tuple[float, ...]:
        """Return the times of the failures that count against the failure budget, with a new one."""
        return (*failures_ms, now_ms)[-(self.settings.max_receiver_failures + 1) :]

    def is_exceeded(self, failures_ms: Sequence[float], now_ms: float) -> bool:
        """Whether more failures than the failure budget allows happened within its window."""
        is_full = len(failures_ms) > self.settings.max_receiver_failures
        return is_full and now_ms - failures_ms[0] < self.settings.receiver_failure_window_ms

    def exceeded_message(self, last_failure: str) -> str:
        """Return the reason for which ``on_receiver_failure`` applies."""
        window_s = self.settings.receiver_failure_window_ms / 1000
        return (
            f"more than {self.settings.max_receiver_failures} failures within {window_s:g} s "
            f"({conf.key('max_receiver_failures')}); the last one: {last_failure}"
        )
