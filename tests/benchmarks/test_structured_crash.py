"""The crash test of Structured Streaming counts losses and duplicates, and no legal resend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.structured_crash import FAULTS, check

STORE, RESENT = 7 << 32, 8 << 32
AGAIN, UNASKED = "sent again and stored again", "stored again, not sent again"


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ({"0-1": [STORE | 0, STORE | 1], "1-1": [STORE | 2]}, {}),
        ({"0-1": [STORE | 0, STORE | 1], "1-1": [RESENT | 1, RESENT | 2]}, {AGAIN: 1}),
        ({"0-1": [STORE | 0, STORE | 1, STORE | 2], "1-1": [STORE | 1]}, {"stored once, seen twice": 1}),
        (
            {"0-1": [STORE | 0, STORE | 1, STORE | 2], "1-1": [RESENT | 0]},
            {UNASKED: 1, AGAIN: 1},
        ),
        ({"0-1": [STORE | 0], "1-1": [STORE | 1]}, {"lost": 1}),
        ({"0-2": [STORE | 0, STORE | 1, STORE | 2], "0-10": [STORE | 0, STORE | 1, STORE | 2]}, {}),
        ({"0-9": [STORE | 0], "0-10": [STORE | 0, STORE | 1, STORE | 2]}, {"batches that differ when run again": 1}),
    ],
)
def test_what_is_counted(tmp_path: Path, batches: dict[str, list[int]], found: dict[str, int]) -> None:
    (tmp_path / "out").mkdir()
    for name, records in batches.items():
        (tmp_path / "out" / name).write_text(json.dumps(records))
    counted = check(tmp_path, range(3), {1})
    names = (*FAULTS, AGAIN)
    assert {name: counted[name] for name in names} == {**dict.fromkeys(names, 0), **found}
