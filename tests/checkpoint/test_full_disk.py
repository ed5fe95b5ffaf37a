"""A disk that is really full, at every kind of write: nothing is wrong afterwards, and all goes on with room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from tests.checkpoint.test_checkpoint_store import numbered
from tests.checkpoint.test_checkpointer import Writing

from penstock.checkpoint.store import CheckpointStore
from penstock.errors import JournalError
from penstock.journal import write_ahead_log as journal_module
from penstock.storage.directory import Directory

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Kept

PAGE = 4096


class SmallDisk:
    """A disk of a megabyte."""

    def __init__(self, path: Path) -> None:
        self.path, self._filler = path, path / "filler"

    def fill(self, *, pages: int = 0) -> None:
        """Leave room for so many pages."""
        self.empty()
        with self._filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        os.truncate(self._filler, max(self._filler.stat().st_size - pages * PAGE, 0))

    def empty(self) -> None:
        """Make room."""
        self._filler.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode:
        pytest.skip(f"this user may not mount a tmpfs: {mounting.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.parametrize("pages", range(4))
def test_a_checkpoint_is_written_whole_or_not_at_all(disk: SmallDisk, pages: int) -> None:
    store = CheckpointStore(Directory.of(str(disk.path)))
    small, large = numbered(1), evolve(numbered(2), conf={"key": "v" * 4 * PAGE})
    store.write(small)
    program = store.write_program(b"functions")
    disk.fill(pages=pages)
    with pytest.raises(OSError, match="No space"):
        store.write(large)
    with pytest.raises(OSError, match="No space"):
        store.write_program(bytes(4 * PAGE + 1))
    # Nor is what it left in the way of the next one.
    assert sorted(path.name for path in disk.path.iterdir()) == ["checkpoint-0000000001", "filler", program.name]
    assert store.newest() == small
    assert store.read_program(program) == b"functions"
    disk.empty()
    store.write(large)
    assert store.newest() == large


def test_checkpoints_that_are_not_written_are_told_and_go_on_when_there_is_room(disk: SmallDisk) -> None:
    writing = Writing(numbered(1), {}, Directory.of(str(disk.path)))
    disk.fill()
    with pytest.raises(OSError, match="No space"):
        writing.checkpointer.start()
    disk.empty()
    writing.checkpointer.start()
    try:
        writing.save(1)
        disk.fill()
        for number in range(2, 5):
            writing.save(number)
            assert writing.newest.last_time_ms == 1000
        assert (writing.told, writing.checkpointer.failures) == ([2], 3)
        assert "No space" in writing.reasons[-1]
        disk.empty()
        writing.save(5)
        assert (writing.newest.last_time_ms, writing.checkpointer.failures) == (5000, 0)
    finally:
        writing.checkpointer.stop(10)


@pytest.mark.parametrize("pages", range(4))
@pytest.mark.parametrize("roll_bytes", [1 << 20, 1], ids=["events", "state"])
def test_what_the_journal_took_is_there_and_nothing_else(
    disk: SmallDisk, keep: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, pages: int, roll_bytes: int
) -> None:
    # With a roll at every event it is the state that finds no room.
    monkeypatch.setattr(journal_module, "_ROLL_BYTES", roll_bytes)
    directory = Directory.of(str(disk.path / "journal"))
    kept = keep(directory)
    kept.add(*range(10))
    disk.fill(pages=pages)
    taken = list(range(10))
    refused = 0
    for number in range(10, 600):
        try:
            kept.add(number)
        except JournalError:
            refused += 1
        else:
            taken.append(number)
    assert refused
    assert kept.fold.numbers == taken
    # Killed now, or later.
    assert keep(directory, start=False).fold.numbers == taken
    disk.empty()
    kept.add(600)
    kept.journal.close()
    again = keep(directory)
    again.add(601)
    assert again.fold.numbers == [*taken, 600, 601]
    assert again.recovered.damages == ()


def test_a_journal_does_not_start_on_a_full_disk_and_loses_nothing(disk: SmallDisk, keep: Callable[..., Kept]) -> None:
    directory = Directory.of(str(disk.path))
    first = keep(directory)
    first.add(1, 2)
    first.journal.close()
    disk.fill()
    second = keep(directory, start=False)
    with pytest.raises(JournalError, match="No space"):
        second.journal.start()
    disk.empty()
    assert keep(directory).fold.numbers == [1, 2]
