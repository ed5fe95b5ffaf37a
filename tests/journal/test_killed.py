"""A process killed while it writes: every acknowledged event is recovered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.storage.directory import Directory

if TYPE_CHECKING:
    from tests.journal.conftest import Kept

PROGRAM = """
import sys, threading
from penstock.runtime.clock import SystemClock
from penstock.conf import Settings
from penstock.journal import write_ahead_log as wal
from penstock.storage.directory import Directory

wal._ROLL_BYTES = 2000

class State:
    def __init__(self):
        self.applied = []
    def apply(self, event):
        self.applied.append(event)
    def events(self):
        return list(self.applied)

directory = Directory.of(sys.argv[1])
directory.can_append = sys.argv[2] == "append"
kept = wal.WriteAheadLog(directory, "run-1", Settings.parse({}), SystemClock())
kept.recover(State())
kept.start()

def add(first):
    for number in range(first, first + 1_000_000):
        kept.append({"n": number})
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()

for thread in range(4):
    threading.Thread(target=add, args=(thread * 1_000_000,)).start()
"""


@pytest.mark.parametrize("segments", ["append", "close"])
def test_events_acknowledged_before_a_kill_are_recovered(
    tmp_path: Path, keep: Callable[..., Kept], segments: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), segments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(500)]
        process.kill()
        said += process.stdout.readlines()
    safe = {int(line) for line in said if line.endswith("\n")}
    found = keep(Directory.of(str(tmp_path)), start=False).state.numbers
    assert len(safe) >= 500
    assert safe <= set(found)
    assert len(found) == len(set(found)) <= len(safe) + 4
    for first in range(0, 4_000_000, 1_000_000):
        mine = [number for number in found if first <= number < first + 1_000_000]
        assert mine == list(range(first, first + len(mine)))
