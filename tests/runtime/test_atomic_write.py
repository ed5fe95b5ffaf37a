"""A file that is written atomically appears whole under its name, or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from penstock.runtime.private_files import atomic_write, is_partial


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    with atomic_write(path) as partial:
        partial.write_text("new")
        (name,) = names(tmp_path)
        assert name.startswith(".file.json.")
        assert is_partial(name)
    assert names(tmp_path) == ["file.json"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as partial:
            partial.write_text("a part")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_failed_sync_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"), atomic_write(path, sync=True) as partial:
        partial.write_text("new")
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_file_is_synced_before_the_move_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []

    def note(descriptor: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append((kind, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", note)
    with atomic_write(tmp_path / "file") as partial:
        partial.write_text("flushed")
    assert synced == []
    (tmp_path / "file").unlink()
    with atomic_write(tmp_path / "file", sync=True) as partial:
        partial.write_text("synced")
    assert synced == [("file", False), ("directory", True)]


def test_concurrent_writers_do_not_mix_their_bytes(tmp_path: Path) -> None:
    path, barrier = tmp_path / "file", threading.Barrier(4)

    def write(text: str) -> None:
        barrier.wait(10)
        with atomic_write(path) as partial, partial.open("w") as file:
            for _ in range(1000):
                file.write(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert path.read_text() in {text * 1000 for text in "abcd"}
    assert names(tmp_path) == ["file"]


def test_other_hidden_files_are_not_partial() -> None:
    for name in (".bashrc", ".file.partial", "file.0123abcd.partial", ".file.xyz.partial", ".0123abcd.partial"):
        assert not is_partial(name)
