"""Concurrent stores, restarts and a stop: each record that a store returned for is stored once, all threads end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ReceiverStoppedError
from penstock.receive.messages import AddBlocks, DeregisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import SystemClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import Noting


@pytest.mark.parametrize("max_rate", ["0", "20000"], ids=["no limit", "limit"])
def test_nothing_that_was_stored_is_lost_or_doubled(
    supervise: Callable[..., ReceiverSupervisor],
    receiver: Noting,
    log: EventLog,
    records: Callable[[], list[Any]],
    background: Callable[[Callable[[], Any]], Future[Any]],
    max_rate: str,
) -> None:
    conf = {"spark.streaming.blockInterval": "5ms", "spark.streaming.receiver.maxRate": max_rate}
    supervisor = supervise(receiver, conf, other_clock=SystemClock())
    supervisor.start()
    surely: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    perhaps: list[list[tuple[int, int]]] = [[] for _ in range(4)]

    def store(thread: int) -> None:
        number = 0
        while not supervisor.is_terminated:
            count = 1 if thread % 2 else 7
            some = [(thread, n) for n in range(number, number + count)]
            number += count
            try:
                if thread % 2:
                    receiver.store(some[0])
                else:
                    receiver.store_all(some)
            except ReceiverStoppedError:
                perhaps[thread] += some
            else:
                surely[thread] += some

    storing = [background(lambda thread=thread: store(thread)) for thread in range(4)]  # type: ignore[misc]  # mypy
    for restarts in range(1, 8):
        receiver.restart("again", None, 1)
        log.await_count("onStart", restarts + 1)
        log.await_count(AddBlocks, 3 * restarts)
    supervisor.stop("enough")
    for future in storing:
        future.result(timeout=10)
    stored = records()
    assert len(stored) == len(set(stored)) == supervisor.state.stored_records
    for thread in range(4):
        of_thread = [record for record in stored if record[0] == thread]
        assert set(surely[thread]) <= set(of_thread) <= {*surely[thread], *perhaps[thread]}
        assert of_thread == sorted(of_thread)
    assert [name for name in log.names if name.startswith("on")] == ["onStart", "onStop"] * 8
    assert isinstance(log.entries[-1], DeregisterReceiver)
