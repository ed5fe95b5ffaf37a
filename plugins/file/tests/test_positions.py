"""Positions are saved to an offset file and loaded from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock_file.positions import Head, Position, load, save


def test_saved_positions_are_loaded(tmp_path: Path) -> None:
    file = str(tmp_path / "offsets")
    assert load(file) is None
    positions = [Position("/a b/\u00e9", 7, 12, True, Head(3, "abc")), Position("/b", 2**63)]
    save(file, positions)
    assert load(file) == positions
    save(file, [])
    assert load(file) == []
    assert [path.name for path in tmp_path.iterdir()] == ["offsets"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"files": 7}',
        b'{"files": [{}]}',
        b'{"files": [{"path": "a", "inode": 1, "offset": -1}]}',
        b"\xff",
    ],
)
def test_file_without_offsets_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "offsets"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=r"offsets does not hold offsets .* delete it to start without offsets"):
        load(str(file))


def test_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "offsets")
    save(file, [Position("/a", 1)])

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(file, [Position("/b", 2)])
    assert load(file) == [Position("/a", 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["offsets"]


def test_head_identifies_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789" * 100)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        head = Head().grown(descriptor, 5)
        assert head.length == 5
        assert head.fits(descriptor)
        head = head.grown(descriptor, 900)
        assert head.length == 256
        assert head.grown(descriptor, 1000) is head
        path.write_bytes(b"x123456789" * 100)
        assert not head.fits(descriptor)
        path.write_bytes(b"012")
        assert not head.fits(descriptor)
        assert Head().fits(descriptor)
    finally:
        os.close(descriptor)
