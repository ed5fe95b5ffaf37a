"""A write-ahead log on a disk that is really full: acknowledged events are there, refused ones are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.helpers.small_disk import SmallDisk, mounted

from penstock.errors import WriteAheadLogError
from penstock.journal import write_ahead_log as wal_module
from penstock.storage.directory import Directory

if TYPE_CHECKING:
    from tests.journal.conftest import Kept

# Each is tried three times, each time in another segment.
MOST_REFUSED = 50


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted(tmp_path / "disk") as disk:
        yield disk


@pytest.mark.parametrize("pages", range(4))
@pytest.mark.parametrize("roll_bytes", [1 << 20, 1], ids=["events", "state"])
def test_acknowledged_events_and_no_others_are_recovered(
    disk: SmallDisk, keep: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, pages: int, roll_bytes: int
) -> None:
    # With a roll at every event it is the state that finds no room.
    monkeypatch.setattr(wal_module, "_ROLL_BYTES", roll_bytes)
    directory = Directory.of(str(disk.path / "log"))
    kept = keep(directory)
    kept.add(*range(10))
    disk.fill(pages=pages)
    taken = list(range(10))
    refused = 0
    for number in range(10, 600):
        try:
            kept.add(number)
        except WriteAheadLogError:
            refused += 1
            if refused == MOST_REFUSED:
                break
        else:
            taken.append(number)
    assert refused
    assert kept.state.numbers == taken
    # Killed now, or later.
    assert keep(directory, start=False).state.numbers == taken
    disk.empty()
    kept.add(600)
    kept.log.close()
    again = keep(directory)
    again.add(601)
    assert again.state.numbers == [*taken, 600, 601]
    assert again.recovered.damages == ()


def test_start_fails_on_a_full_disk_and_loses_nothing(disk: SmallDisk, keep: Callable[..., Kept]) -> None:
    directory = Directory.of(str(disk.path))
    first = keep(directory)
    first.add(1, 2)
    first.log.close()
    disk.fill()
    second = keep(directory, start=False)
    with pytest.raises(WriteAheadLogError, match="No space"):
        second.log.start()
    disk.empty()
    assert keep(directory).state.numbers == [1, 2]
