"""Describes the machine and the versions that figures come from, and how busy the machine was."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from penstock_cli.java import find_java

# A share of the processors that is busy with other things, and how long a round waits for less.
_IDLE_SHARE = 0.1
_WAIT_S = 600.0
# How long the processors are watched.
_WATCHED_S = 2.0
_PACKAGES = ("penstock-core", "pyspark", "pyarrow", "pandas", "bytewax")


def cores() -> int:
    """Number of cores that this process may use; at least 2, because a receiver occupies one of Spark's slots."""
    return max(2, len(os.sched_getaffinity(0)))


def describe() -> dict[str, str]:
    """Machine and versions, by name."""
    facts = {
        "processor": f"{_processor()}, {cores()} cores in use",
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        # Without its path, because the page is published.
        "Java": str(find_java().java or "none").partition(",")[0],
    }
    facts["commit"] = _commit()
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


class BusyError(Exception):
    """The machine is busy with other things, so that figures would say nothing."""


def wait_until_idle(busy_share: Callable[[], float] | None = None, wait_s: float = _WAIT_S) -> float:
    """Wait until other things leave the machine alone.

    Args:
        busy_share: measures the share of the processors that is busy; by default over two seconds.
        wait_s: maximum seconds to wait.

    Returns:
        The share of the processors that is still busy, at most a tenth.

    Raises:
        BusyError: the machine did not become idle in time.
    """
    measured = busy_share or (lambda: psutil.cpu_percent(interval=_WATCHED_S) / 100)
    deadline = time.monotonic() + wait_s
    while (share := measured()) > _IDLE_SHARE:
        if time.monotonic() > deadline:
            raise BusyError(
                f"{share:.0%} of the processors are busy with other things, after {wait_s:.0f} s of waiting: "
                "end them, or run with --quick, whose figures say nothing about speed"
            )
    return share


def state() -> str:
    """How busy the machine is with other things, and how this process is scheduled."""
    busy = psutil.cpu_percent(interval=1.0)
    return f"{busy:.0f} % of the processors were busy before the run, load {os.getloadavg()[0]:.1f}; {priority()}"


def priority() -> str:
    """How this process is scheduled."""
    idle = "at idle priority, " if os.sched_getscheduler(0) == os.SCHED_IDLE else ""
    return f"{idle}niceness {os.nice(0)}"


def _commit() -> str:
    """The commit of this folder, and whether files were changed since."""
    folder = Path(__file__).parent
    run = [
        subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
        for arguments in (
            ("rev-parse", "--short=8", "HEAD"),
            ("status", "--porcelain", "--untracked-files=no", ":/core", ":/plugins"),
        )
    ]
    if any(done.returncode for done in run):
        return "unknown"
    return run[0].stdout.strip() + (", with changes" if run[1].stdout.strip() else "")


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
