"""Processes that each keep a core busy."""

from __future__ import annotations

import atexit
import subprocess
import sys


def start_burners(count: int) -> list[subprocess.Popen[bytes]]:
    """Start this many, which end with this process."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10_000))"]) for _ in range(count)]
    for burner in burners:
        atexit.register(burner.kill)
    return burners
