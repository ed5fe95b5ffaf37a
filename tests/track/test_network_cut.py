"""A receiver's host is cut off while a block is reported: that block may be accepted from both launches, no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.helpers import run_in_background

from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.conf import Settings
from penstock.errors import StoreError, WireError
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import RegisterReceiver
from penstock.receive.rate_limiter import RateLimiter
from penstock.wire.client import Client
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

R = TypeVar("R")


class Host:
    """Stores blocks of one record as a launch does, over a network that may lose requests or answers."""

    def __init__(self, process: FakeProcess, directory: Path) -> None:
        task = process.task
        self.clock = ManualClock(0)
        self.loses = ""
        self._client = Client(task.driver.location, task.driver.token, 10_000)
        launch = RegisterReceiver(task.stream_id, task.epoch, "Silent", 1)
        store = LocalBlockHandler(directory / str(task.epoch))
        limiter = RateLimiter(self.clock, None, 0)
        self._pusher = BlockPusher(launch, Settings.parse({}), store, self, limiter, lambda _event: None)
        self._pusher.start()

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message and return the reply, unless the network loses either."""
        if self.loses == "requests":
            raise WireError("no answer")
        reply = self._client.ask(message, reply_kind)
        if self.loses == "answers":
            raise WireError("no answer")
        return reply

    def store(self, number: int) -> None:
        """Return when the driver has accepted the number."""
        self._pusher.push_and_await(arrow_form.encode([number]), 1, None, 0)

    def close(self) -> None:
        self._pusher.stop()
        self._client.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[[FakeProcess], Host]]:
    """Makes the host of a launch."""
    made: list[Host] = []

    def make(process: FakeProcess) -> Host:
        made.append(Host(process, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("lost", ["requests", "answers"])
def test_block_comes_twice_only_if_it_was_accepted_and_the_answer_lost(
    tracked: Tracked, host: Callable[[FakeProcess], Host], lost: str
) -> None:
    first = host(tracked.registered())
    first.store(0)
    first.loses = lost
    storing = run_in_background(lambda: first.store(1))
    # Between two reports of the block.
    # The timer of the block generator waits, too.
    first.clock.await_waiters(2)
    tracked.launch().end(RuntimeError("the executor was lost"))
    tracked.relaunch()
    # It continues after the last number that the first launch knows to be accepted.
    second = host(tracked.registered(2))
    second.store(1)
    first.loses = ""
    first.clock.advance(60_000)
    if lost == "answers":
        # Refused, it would delete a block that a batch is to have.
        storing.result(timeout=10)
    else:
        with pytest.raises(StoreError, match="launch 1 of stream 0 was replaced"):
            storing.result(timeout=10)
    with pytest.raises(StoreError, match="launch 1 of stream 0 was replaced"):
        first.store(2)
    second.store(2)
    tracked.tracker.allocate_blocks_to_batch(1000)
    blocks = [each.block_id for each in tracked.tracker.blocks.blocks_of_batch(1000, 0)]
    accepted = ["input-0-1-0", *["input-0-1-1"] * (lost == "answers"), "input-0-2-0", "input-0-2-1"]
    assert blocks == accepted
