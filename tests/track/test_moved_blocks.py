"""``BlockLocations`` alone: where blocks are read and deleted as launches come and go."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock import StoredBlock
from penstock.blocks.block_transfer import FindBlock, LostBlock
from penstock.receive.messages import CleanUpBlocks
from penstock.track import block_locations
from penstock.track.block_locations import BlockLocations
from penstock.track.receiver_tracking_info import BlockLocation

HERE, UNREPORTED = BlockLocation("host-a", "address-a", "/blocks"), BlockLocation("", "address-b", "/blocks")


class FakeConnection:
    """A launch that serves a location, and what it was sent."""

    def __init__(self, location: BlockLocation, source: str) -> None:
        self.stream_id = 0
        self.location = location
        self.source = source
        self.serves = True
        self.sent: list[object] = []
        self.send = self.sent.append

    def close_after_flush(self) -> None:
        """Nothing to close."""


class Moving:
    """The locations of blocks on a cluster."""

    def __init__(self) -> None:
        self.hosts = {"host-a"}
        launcher: Any = SimpleNamespace(
            logs=None,
            on_this_machine=False,
            run_id="run",
            placement=SimpleNamespace(has_executor=lambda host: host in self.hosts),
        )
        self.locations = BlockLocations(launcher)

    def serve(self, location: BlockLocation, epoch: int) -> FakeConnection:
        made = FakeConnection(location, f"source-{epoch}")
        self.locations.connections.add(epoch, cast(Any, made))
        return made

    def read(self, block: StoredBlock) -> tuple[str, str]:
        """The host and the source from which a task reads a block."""
        ((host, _size, reference),) = self.locations.references([block])
        return host, reference.source


@pytest.fixture
def moving() -> Moving:
    return Moving()


def block(number: int, folder: str = "/blocks") -> StoredBlock:
    return StoredBlock(f"input-0-1-{number}", 0, 10, 100, f"{folder}/{number}")


def test_block_is_read_through_the_launch_at_its_location(moving: Moving) -> None:
    moving.locations.add(HERE, [block(0)])
    assert moving.read(block(0)) == ("host-a", "")
    moving.serve(HERE, 1)
    assert moving.read(block(0)) == ("host-a", "source-1")
    assert moving.locations.disk_of(block(0)) == "address-a"
    moving.locations.forget([block(0)])
    assert moving.read(block(0)) == ("", "")
    assert moving.locations.disk_of(block(0)) == ""


def test_host_that_spark_reports_of_a_later_launch_is_that_of_the_block(moving: Moving) -> None:
    moving.locations.add(UNREPORTED, [block(0)])
    assert moving.read(block(0)) == ("", "")
    moving.serve(BlockLocation("host-b", UNREPORTED.address, UNREPORTED.directory), 2)
    assert moving.read(block(0)) == ("host-b", "source-2")


def test_block_is_gone_when_nobody_can_serve_it(moving: Moving) -> None:
    def is_gone(asked_from: str = "address-c") -> bool:
        return moving.locations.find(FindBlock("input-0-1-0", asked_from)).is_gone

    assert is_gone()
    moving.locations.add(HERE, [block(0)])
    assert not is_gone()
    # A task on that host would have found the file.
    assert is_gone("address-a")
    moving.hosts.clear()
    assert is_gone()
    moving.serve(HERE, 1)
    assert moving.locations.find(FindBlock("input-0-1-0", "address-c")).source == "source-1"


def test_blocks_that_were_not_deleted_are_deleted_by_another_launch_at_that_location(moving: Moving) -> None:
    unreachable = moving.serve(HERE, 1)
    moving.locations.not_deleted(cast(Any, unreachable), ["a"])
    # The same launch is not asked again.
    assert unreachable.sent == []
    later = moving.serve(HERE, 2)
    moving.locations.not_deleted(cast(Any, unreachable), ["b"])
    assert later.sent == [CleanUpBlocks(["a", "b"])]
    moving.locations.not_deleted(cast(Any, later), ["c"])
    assert later.sent == [CleanUpBlocks(["a", "b"])]


def test_blocks_that_were_not_deleted_wait_for_a_launch(moving: Moving) -> None:
    unreachable = FakeConnection(HERE, "source-1")
    moving.locations.not_deleted(cast(Any, unreachable), ["a"])
    moving.locations.add(HERE, [block(0)])
    moving.locations.delete([block(0)])
    later = moving.serve(HERE, 2)
    moving.locations.add(HERE, [block(1)])
    moving.locations.delete([block(1)])
    assert later.sent == [CleanUpBlocks(["a", block(0).block_id, block(1).block_id])]


def test_own_directories_are_deleted_and_no_others(tmp_path: Path, moving: Moving) -> None:
    own, of_a_plugin = tmp_path / "run", tmp_path / "plugin"
    for folder in (own, of_a_plugin):
        folder.mkdir()
        (folder / "0").touch()
        moving.locations.add(HERE, [block(0, str(folder))])
    # Another process may have deleted it.
    moving.locations.add(HERE, [block(1, str(tmp_path / "gone" / "run"))])
    moving.locations.delete_directories()
    assert not own.exists()
    assert (of_a_plugin / "0").exists()


def test_lost_block_is_noted_once_while_it_is_remembered(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_locations, "_LOST_REMEMBERED", 2)

    def noted(*names: str) -> list[str]:
        lost = [LostBlock(name, 0, 10, "gone") for name in names]
        return [each.block_id for each in moving.locations.note_lost(lost).get(0, [])]

    assert noted("a", "b", "a") == ["a", "b"]
    assert noted("a", "b") == []
    assert noted("c") == ["c"]
    # The oldest is forgotten.
    assert noted("b", "c") == []
    assert noted("a") == ["a"]
