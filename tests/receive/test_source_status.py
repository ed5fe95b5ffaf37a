"""The status of a receiver's source: the newest one reaches the driver at most once per second, also without blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.helpers import wait_for

from penstock import SourceStatus
from penstock.receive.messages import AddBlocks
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, Noting

Supervise = Callable[..., ReceiverSupervisor]


def sources(log: EventLog) -> list[SourceStatus]:
    return [message.source for message in log.of(AddBlocks) if message.source is not None]


@pytest.fixture
def started(supervise: Supervise, receiver: Noting, clock: ManualClock) -> Noting:
    supervise(receiver).start()
    clock.await_waiters(1)
    return receiver


def test_newest_status_of_an_idle_source_is_sent_once_per_second(
    started: Noting, log: EventLog, clock: ManualClock
) -> None:
    for lag in range(5):
        started.report_source(SourceStatus(lag))
    clock.advance(200)
    log.await_count(AddBlocks)
    started.report_source(SourceStatus(7, 1.5, redelivered=3, lag_by_partition={"orders/0": 7}))
    for _interval in range(4):
        clock.advance(200)
        clock.await_waiters(1)
    assert sources(log) == [SourceStatus(4)]
    clock.advance(200)
    log.await_count(AddBlocks, 2)
    assert sources(log) == [SourceStatus(4), SourceStatus(7, 1.5, redelivered=3, lag_by_partition={"orders/0": 7})]
    assert not any(message.blocks for message in log.of(AddBlocks))


def test_status_goes_with_the_report_of_a_block(started: Noting, log: EventLog) -> None:
    started.report_source(SourceStatus(9))
    started.store_all(["a"])
    (message,) = log.of(AddBlocks)
    assert (message.source, len(message.blocks)) == (SourceStatus(9), 1)


def test_status_that_does_not_reach_the_driver_ends_nothing(
    started: Noting, log: EventLog, clock: ManualClock, driver: FakeDriver
) -> None:
    driver.failures[AddBlocks] = 1
    started.report_source(SourceStatus(1))
    clock.advance(200)
    wait_for(lambda: driver.failures[AddBlocks] == 0, "the report has failed")
    clock.await_waiters(1)
    clock.advance(1000)
    log.await_count(AddBlocks)
    assert sources(log) == [SourceStatus(1)]
    assert started.isStarted()


def test_negative_values_of_clocks_that_differ_become_zero() -> None:
    assert SourceStatus(-3, -0.5, -1.0) == SourceStatus(0, 0, 0)
    assert SourceStatus() == SourceStatus(None, None, None, 0, 0)
