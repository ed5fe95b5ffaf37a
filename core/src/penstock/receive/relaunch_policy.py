"""When a receiver that has ended is relaunched: the back-off and the restart budget.

A relaunch is a new instance of the receiver, in a new task where there are tasks. The tracker's life cycle and
``ReceiverHost`` follow this policy. A restart is another matter: ``restart_lifecycle``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from penstock import conf
from penstock.conf import Settings
from penstock.runtime.retry import delay_ms_after

#: A launch that lived this long was healthy: the next back-off begins at the shortest delay.
HEALTHY_MS = 10_000


def relaunch_delay_ms(settings: Settings, relaunches: int, seed: str) -> float:
    """The back-off of a relaunch: doubles from ``spark.penstock.receiver.relaunchDelay``.

    Args:
        settings: have the shortest and the longest delay.
        relaunches: number of relaunches since a launch was healthy.
        seed: seeds the jitter.
    """
    rng = random.Random(seed)
    return delay_ms_after(relaunches, settings.relaunch_delay_ms, settings.max_relaunch_delay_ms, rng)


def with_failure(settings: Settings, failures_ms: Sequence[float], now_ms: float) -> tuple[float, ...]:
    """The times of failures that count against the restart budget, with a new one."""
    return (*failures_ms, now_ms)[-(settings.max_restarts + 1) :]


def exceeds_budget(settings: Settings, failures_ms: Sequence[float], now_ms: float) -> bool:
    """Whether more failures than the restart budget allows happened within its window."""
    return len(failures_ms) > settings.max_restarts and now_ms - failures_ms[0] < settings.restart_window_ms


def budget_message(settings: Settings, last_failure: str) -> str:
    """Describes an exceeded restart budget."""
    return (
        f"more than {settings.max_restarts} failures within {settings.restart_window_ms / 1000:g} s "
        f"({conf.key('max_restarts')}); the last one: {last_failure}"
    )
