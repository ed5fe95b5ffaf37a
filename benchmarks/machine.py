"""Describes the machine and the versions that figures come from, and how busy the machine was."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from penstock_cli.java import find_java

_PACKAGES = ("penstock", "pyspark", "pyarrow", "pandas", "bytewax")


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
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def state() -> str:
    """How busy the machine is with other things, and how this process is scheduled."""
    busy = psutil.cpu_percent(interval=1.0)
    load = os.getloadavg()[0]
    idle = " at idle priority," if os.sched_getscheduler(0) == os.SCHED_IDLE else ""
    return f"{busy:.0f} % of the processors were busy before the run, load {load:.1f};{idle} niceness {os.nice(0)}"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
