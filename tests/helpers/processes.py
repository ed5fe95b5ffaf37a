"""Processes of a running program: which live, on which ports they listen, and how to kill one that may be gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


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


def listening_ports(pid: int) -> list[int]:
    """The TCP ports on which a process listens (Linux: read from /proc)."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(descriptor.readlink()))
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            local, state, inode = fields[1], fields[3], fields[9]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                ports.append(int(local.rpartition(":")[2], 16))
    return sorted(set(ports))
