"""The Spark that a laptop has: ``local[n]``.

Owns the count of slots: a receiver takes one for as long as it runs, and batches are to have all the cores.
"""

from __future__ import annotations

import os


def local_master(receivers: int) -> str:
    """The master with a slot for each core and each receiver."""
    return f"local[{_cores() + receivers}]"


def _cores() -> int:
    """The cores this process may use, which a container can make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
