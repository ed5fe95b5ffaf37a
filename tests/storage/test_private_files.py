"""Blocks, logs and checkpoints on a local disk are their user's alone, whatever the umask."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Block
from penstock.blocks import arrow_form, block_directories
from penstock.blocks.received_block_handler import LocalBlockHandler, WriteAheadLogBlockHandler
from penstock.runtime.private_files import own_directory
from penstock.storage.directory import Directory


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in (root, *root.rglob("*"))}


def test_files_and_directories_of_storage_are_private(tmp_path: Path) -> None:
    directory = Directory.of(str(tmp_path / "checkpoint" / "log"))
    directory.write("whole", b"x")
    appender = directory.append("grows")
    appender.write(b"x")
    appender.close()
    directory.move("whole", "aside")
    made = {"checkpoint": 0o700, "log": 0o700, "grows": 0o600, "aside": 0o700, "whole": 0o600}
    assert modes(tmp_path / "checkpoint") == made


def test_own_directory_is_neither_a_link_nor_another_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "own"
    path.parent.mkdir()
    path.mkdir(mode=0o777)
    assert own_directory(path) == path
    assert modes(path) == {"own": 0o700}
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(PermissionError, match=r"link belongs to another user: set TMPDIR to a folder of your own"):
        own_directory(tmp_path / "link")
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match=r"own belongs to another user: set HOME"):
        own_directory(path, "HOME")


def test_blocks_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    block = Block("input-0-1-0", 0, 1, arrow_form.encode(["secret"]))
    run = tmp_path / "penstock" / "run-1"
    LocalBlockHandler(tmp_path / "new" / "penstock" / "run-2").store(block)
    block_directories.claim(run, None)
    LocalBlockHandler(run).store(block)
    WriteAheadLogBlockHandler(str(tmp_path / "log" / "0")).store(block)
    assert set(modes(run.parent).values()) | set(modes(tmp_path / "new").values()) == {0o700, 0o600}
    assert modes(tmp_path / "log" / "0") == {"0": 0o700} | {"input-0-1-0.arrow": 0o600}
