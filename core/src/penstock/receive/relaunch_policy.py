"""``RelaunchPolicy``: when a receiver that has ended is relaunched, and when it is given up.

The back-off of relaunches and the restart budget, for the tracker's life cycle and for ``ReceiverHost``. A relaunch is
a new instance of the receiver, in a new task where there are tasks; for restarts see ``RestartPolicy``. Pure.
"""

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
    """The configuration of a receiver's relaunches.

    Attributes:
        max_failures: the restart budget: failures within the window before ``on_failure`` applies.
        window_ms: period over which failures count.
        on_failure: ``restart``, ``stop-stream`` or ``fail-application``.
        delay_ms: delay before the first relaunch.
        max_delay_ms: maximum delay.
        launch_timeout_ms: maximum time from launch to registration; 0 for no timeout.
    """

    max_failures: int
    window_ms: int
    on_failure: str
    delay_ms: int
    max_delay_ms: int
    launch_timeout_ms: int

    @classmethod
    def of(cls, settings: Settings) -> RelaunchPolicy:
        """Return the configured policy."""
        return cls(
            max_failures=settings.max_restarts,
            window_ms=settings.restart_window_ms,
            on_failure=settings.on_receiver_failure,
            delay_ms=settings.relaunch_delay_ms,
            max_delay_ms=settings.max_relaunch_delay_ms,
            launch_timeout_ms=settings.launch_timeout_ms,
        )

    def relaunches_in_a_row(self, before: int, lived_ms: float) -> int:
        """Return the number of relaunches since a launch was healthy, before the next one.

        Args:
            before: the number before the launch that has ended.
            lived_ms: how long that launch lived.
        """
        return 0 if lived_ms > _HEALTHY_MS else before

    def back_off_ms(self, relaunches: int, seed: str) -> float:
        """Return the delay before a relaunch: it doubles with each relaunch in a row.

        Args:
            relaunches: relaunches in a row before this one.
            seed: seeds the jitter.
        """
        return delay_ms_after(relaunches, self.delay_ms, self.max_delay_ms, random.Random(seed))

    def with_failure(self, failures_ms: Sequence[float], now_ms: float) -> tuple[float, ...]:
        """Return the times of the failures that count against the restart budget, with a new one."""
        return (*failures_ms, now_ms)[-(self.max_failures + 1) :]

    def is_exceeded(self, failures_ms: Sequence[float], now_ms: float) -> bool:
        """Whether more failures than the restart budget allows happened within its window."""
        return len(failures_ms) > self.max_failures and now_ms - failures_ms[0] < self.window_ms

    def exceeded_message(self, last_failure: str) -> str:
        """Return the reason for which ``on_failure`` applies."""
        return (
            f"more than {self.max_failures} failures within {self.window_ms / 1000:g} s "
            f"({conf.key('max_restarts')}); the last one: {last_failure}"
        )
