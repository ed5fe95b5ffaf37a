"""The token of a launch lets nobody act for another launch or for a task, nor read blocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from penstock import Receiver
from penstock.blocks.block_transfer import BlocksLost, BlockSource, FindBlock
from penstock.errors import BlockUnreachableError, WireError
from penstock.receive.messages import (
    AddBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReportError,
    StopReceiver,
)
from penstock.wire.client import Client
from penstock.wire.json_codec import Reply
from penstock.worker.block_reader import ReadBlocks

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

OTHERS = [
    (RegisterReceiver(1, 1, "Silent", 4000), Registered),
    (RegisterReceiver(0, 2, "Silent", 4000), Registered),
    (AddBlocks(1, 1, []), Reply),
    (ReportError(1, 1, "lost", ""), Reply),
    (DeregisterReceiver(1, 1, "done", ""), Reply),
    (FindBlock("input-1-1-0", "127.0.0.1"), BlockSource),
    (BlocksLost([]), Reply),
]


@pytest.fixture
def two(make_tracker: Callable[..., Tracked], silent: type[Receiver[Any]]) -> Tracked:
    """A tracker of two receivers, both launched."""
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    tracked.launch(2)
    return tracked


@pytest.mark.parametrize(("message", "answer"), OTHERS, ids=lambda value: getattr(value, "__name__", str(value)[:60]))
def test_launch_cannot_act_for_another_or_for_a_task(two: Tracked, message: object, answer: type[Reply]) -> None:
    first = two.registered()
    with pytest.raises(WireError, match="the token of '0/1' does not permit this message"):
        first.driver.ask(message, answer)


def test_launch_cannot_command_another(two: Tracked) -> None:
    first, second = two.registered(), two.registered(2)
    location = second.task.driver.token.location(second.address, second.endpoint.port)
    with (
        closing(Client(location, first.task.driver.token, 5000)) as client,
        pytest.raises(WireError, match="token only"),
    ):
        client.ask(StopReceiver("gone"), Reply)


def test_launch_cannot_read_the_blocks_of_another_and_tasks_can(two: Tracked, tmp_path: Path) -> None:
    first, second = two.registered(), two.registered(2, directory=str(tmp_path / "blocks"))
    second.store(0)
    two.tracker.allocate_blocks_to_batch(100)
    (partition,) = two.tracker.partitions(100, [1], 1)
    # On a host that does not have the files.
    elsewhere = [(evolve(reference, path="/not/here.arrow"),) for reference in partition.element]
    assert list(two.tracker.reader(0, elsewhere)) == ["input-1-1-0"]
    readers = first.task.driver.readers
    assert readers is not None
    for token in (first.task.driver.token, readers):
        with pytest.raises(BlockUnreachableError, match="token only"):
            list(ReadBlocks(token)(0, elsewhere))
