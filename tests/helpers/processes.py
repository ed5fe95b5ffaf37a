"""Killing processes of a running program without assuming that they are still there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable


def kill(pid: int, with_signal: int = signal.SIGKILL) -> bool:
    """Send a signal. Returns False if the process had already gone: the caller then looks for its successor."""
    try:
        os.kill(pid, with_signal)
    except ProcessLookupError:
        return False
    return True


def remaining_processes(pids: Iterable[int], timeout_s: float = 10.0) -> list[int]:
    """The processes of ``pids`` that still run after ``timeout_s``; returns early when none does."""
    deadline = time.monotonic() + timeout_s
    while left := [pid for pid in pids if kill(pid, 0)]:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return []
