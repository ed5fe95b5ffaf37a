"""The chaos of ``benchmarks/chaos.py``, for a short while: what was acknowledged is in exactly one batch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

CHAOS = Path(__file__).parents[2] / "benchmarks" / "chaos.py"


def test_whatever_breaks_nothing_acknowledged_is_lost_or_comes_twice() -> None:
    ran = subprocess.run([sys.executable, CHAOS, "10", "722"], capture_output=True, text=True, timeout=115, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = {name: int(count.replace(",", "")) for count, name in re.findall(r"^ *([\d,]+) (.*)$", ran.stdout, re.M)}
    assert (figures["records lost"], figures["records twice"]) == (0, 0)
    assert figures["records acknowledged"] > 10_000
    # The seed is one that has each of them early.
    for fault in ("killed Python workers of receivers", "executors ended in order", "cut connections to the driver"):
        assert figures[fault], fault
