"""Blocks that tasks could not read are counted once and reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Block, Receiver
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_transfer import BlocksLost, LostBlock
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.errors import BlockGoneError, BlockUnreachableError
from penstock.listen.events import ReceiverError
from penstock.wire.client import Client
from penstock.wire.json_codec import Reply
from penstock.worker.block_reader import ReadBlocks

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]


def lost(number: int, stream_id: int = 0) -> LostBlock:
    return LostBlock(f"input-{stream_id}-1-{number}", stream_id, 10, f"block {number} is gone")


def gone(number: int) -> BlockReference:
    return BlockReference(f"input-0-1-{number}", "/not/on/this/host.arrow", 10, "", 0)


def errors(tracked: Tracked) -> list[str]:
    tracked.settle()
    return [entry.receiverInfo.lastErrorMessage for entry in tracked.events.entries if isinstance(entry, ReceiverError)]


def test_lost_block_is_counted_once_for_its_stream(make_tracker: MakeTracker, silent: type[Receiver[Any]]) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    driver = Client(tracked.launch().task.driver.location, tracked.tracker.reader.token, 10_000)
    for blocks in ([lost(1), lost(2), lost(3, 1)], [lost(1)], [lost(2), lost(4)], [lost(5, 9)]):
        assert driver.ask(BlocksLost(blocks), Reply).accepted
    driver.close()
    assert errors(tracked) == [
        "2 blocks (20 records) are lost, their batch fails: block 1 is gone",
        "1 blocks (10 records) are lost, their batch fails: block 3 is gone",
        "1 blocks (10 records) are lost, their batch fails: block 4 is gone",
    ]
    infos = tracked.tracker.receiver_infos()
    assert [(info.lost_blocks, info.lost_records) for info in infos.values()] == [(3, 30), (1, 10)]


def test_task_reports_a_lost_block_and_fails(tracked: Tracked) -> None:
    tracked.launch()
    for _ in range(2):
        with pytest.raises(BlockGoneError, match="input-0-1-7"):
            list(tracked.tracker.reader(0, [(gone(7),)]))
    (said,) = errors(tracked)
    assert said.startswith("1 blocks (10 records) are lost, their batch fails: block input-0-1-7 (10 records) is lost")


def test_task_reports_a_lost_block_and_skips_it(make_tracker: MakeTracker, tmp_path: Any) -> None:
    tracked = make_tracker(conf={"spark.penstock.blocks.onLost": "skip"})
    tracked.tracker.start()
    tracked.launch()
    stored = LocalBlockHandler(tmp_path).store(Block("input-0-1-1", 0, 2, arrow_form.encode(["a", "b"])))
    there = BlockReference(stored.block_id, stored.path, 2, "", 0)
    reader = tracked.tracker.reader
    assert list(reader(0, [(gone(0), there), (gone(2), gone(0))])) == ["a", "b"]
    assert [said.split(":")[0] for said in errors(tracked)] == ["1 blocks (10 records) are lost, they are left out"] * 2


def test_unreachable_driver_fails_the_task_without_losing_the_block(tracked: Tracked) -> None:
    tracked.launch()
    reader = ReadBlocks(tracked.launch().task.driver.token, "grpc://127.0.0.1:1", skips_lost=True)
    with pytest.raises(BlockUnreachableError, match="the driver does not say where it is"):
        list(reader(0, [(gone(0),)]))
