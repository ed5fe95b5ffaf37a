"""Waiting for a condition in real time, also while a manual clock advances."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock_testing import ManualClock


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 120.0, poll_s: float = 0.01) -> None:
    """Poll ``condition`` until it is true; fail with ``what`` after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(poll_s)


def advance_until(clock: ManualClock, condition: Callable[[], object], what: str, step_ms: int) -> None:
    """Advance a manual clock by ``step_ms``, again and again, until ``condition`` is true."""

    def advanced() -> bool:
        if not condition():
            clock.advance(step_ms)
            return False
        return True

    wait_for(advanced, what, poll_s=0.001)
