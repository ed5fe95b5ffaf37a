"""``boot_id``: whether a host has restarted since something was written."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """An id that this host got when it started, equal in all its containers; empty if the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
