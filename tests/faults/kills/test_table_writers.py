"""Writers of tables, killed in the middle of tasks and commits: each batch is in the table once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from plugins.tables.tests.kind_of_table import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_killed_writers_lose_and_repeat_nothing(kind: str) -> None:
    command = [sys.executable, "-m", "plugins.tables.tests.killed_writers", kind, "--kills", "15", "--seed", "7"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    result = json.loads(printed)
    assert sum(result["kills"].values()) == 15
    assert result["batches"] >= 3
    assert (result["lost"], result["repeated"], result["unknown"], result["failed"]) == (0, 0, 0, False)
