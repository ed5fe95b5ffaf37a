"""The receiver ``socket-stream`` under a rate limit: what it stores, and how far it reads ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock_socket import SocketStreamOptions, SocketStreamReceiver
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Fountain

    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]
# Who waits for the clock when a rate limit holds: the limiter, and the block generator's timer.
HELD = 2
NOWHERE = SocketStreamOptions("nowhere", 1, iter)


def test_rate_limit_holds_from_the_first_record(launch: Launch, fountain: Fountain) -> None:
    clock = ManualClock()
    settings = {"spark.streaming.blockInterval": "100ms", "spark.streaming.receiver.maxRate": "1000"}
    launched = launch(SocketStreamReceiver(NOWHERE), clock, settings)

    def stored() -> int:
        clock.await_waiters(HELD)
        return sum(block.num_records for block in launched.blocks)

    assert stored() <= 1
    for passed_ms in range(10, 1001, 10):
        clock.advance(10)
        assert 0.7 * passed_ms - 100 <= stored() <= passed_ms + 100
    # What is read ahead is bounded: a buffer, and what the limiter lets pass in one go.
    assert fountain.received_bytes <= (stored() + 2 * 100) * 100 + 2 * (64 << 10)


def test_blocks_are_large_without_a_rate_limit(launch: Launch, fountain: Fountain) -> None:
    launched = launch(SocketStreamReceiver(NOWHERE), settings={"spark.streaming.blockInterval": "1h"})
    launched.until(lambda: len(launched.blocks) >= 4)
    launched.stop()
    assert [block.num_records for block in launched.blocks[:4]] == [1, 10_000, 10_000, 10_000]
