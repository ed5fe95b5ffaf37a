"""The feeder that writes files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock_testing import FileFeeder
from penstock_testing.check import NotApplicable


def _contents(feeder: FileFeeder) -> list[str]:
    return [file.read_text() for file in sorted(Path(feeder.options()["path"]).iterdir())]


def test_growing_file_has_all_records() -> None:
    with FileFeeder() as feeder:
        feeder.put(["a", "é"])
        feeder.put_bytes(b"unfin")
        assert _contents(feeder) == ["a\né\nunfin"]


def test_each_put_is_a_file_of_its_own() -> None:
    with FileFeeder(growing=False) as feeder:
        feeder.put(["a"])
        feeder.put(["b", "c"])
        assert _contents(feeder) == ["a\n", "b\nc\n"]
        with pytest.raises(NotApplicable, match="put_bytes"):
            feeder.put_bytes(b"a part of a record is no file")


def test_cut_moves_the_folder_away_until_it_heals() -> None:
    with FileFeeder() as feeder:
        feeder.put(["a"])
        feeder.cut()
        assert not feeder.folder.exists()
        feeder.put(["b"])
        feeder.heal()
        assert _contents(feeder) == ["a\nb\n"]


def test_nothing_remains_after_close() -> None:
    with FileFeeder() as feeder:
        feeder.put(["a"])
    assert not feeder.folder.parent.exists()
