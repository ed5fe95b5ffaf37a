"""Checkpoints on a disk that is really full: each is written whole or not at all, and later ones continue with room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from tests.checkpoint.samples import numbered
from tests.checkpoint.test_checkpointer import Writing
from tests.helpers.small_disk import PAGE, SmallDisk, mounted

from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.errors import ConfigurationError
from penstock.storage.directory import Directory


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted(tmp_path / "disk") as disk:
        yield disk


@pytest.mark.parametrize("pages", range(4))
def test_checkpoint_is_written_whole_or_not_at_all(disk: SmallDisk, pages: int) -> None:
    store = CheckpointStore(Directory.of(str(disk.path)))
    small, large = numbered(1), evolve(numbered(2), conf={"key": "v" * 4 * PAGE})
    store.write(small)
    program = store.write_program(b"functions")
    disk.fill(pages=pages)
    with pytest.raises(OSError, match="No space"):
        store.write(large)
    with pytest.raises(OSError, match="No space"):
        store.write_program(bytes(4 * PAGE + 1))
    # A failed write leaves nothing behind.
    assert sorted(path.name for path in disk.path.iterdir()) == ["checkpoint-0000000001", "filler", program]
    assert store.newest() == small
    assert store.read_program(program) == b"functions"
    disk.empty()
    store.write(large)
    assert store.newest() == large


def test_failed_writes_are_reported_and_writing_resumes_with_room(disk: SmallDisk) -> None:
    writing = Writing(numbered(1), {}, Directory.of(str(disk.path)))
    disk.fill()
    with pytest.raises(ConfigurationError, match="No space"):
        writing.checkpointer.start()
    disk.empty()
    writing.checkpointer.start()
    try:
        writing.save(1)
        disk.fill()
        for number in range(2, 5):
            writing.save(number)
            assert writing.newest.last_time_ms == 1000
        assert (writing.failures, writing.checkpointer.failures) == ([3], 3)
        assert "No space" in writing.reasons[-1]
        disk.empty()
        writing.save(5)
        assert (writing.newest.last_time_ms, writing.checkpointer.failures) == (5000, 0)
    finally:
        writing.checkpointer.stop(10)
