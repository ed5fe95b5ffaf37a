"""``sys.exit`` in a receiver or a plugin is an error like any other, on every thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.receive.messages import DeregisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


def leave(_argument: object = None) -> None:
    raise SystemExit("leaving")


def test_exit_in_onStop_does_not_prevent_the_stop(
    supervise: Supervise, receiver: Noting, log: EventLog, records: Callable[[], list[Any]]
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store("buffered")
    receiver.on_stop = leave
    supervisor.stop_soon("enough")
    log.await_count(DeregisterReceiver)
    assert records() == ["buffered"]


def test_exit_in_onStart_of_a_restart_ends_the_receiver_with_that_error(
    supervise: Supervise, receiver: Noting, log: EventLog, background: Background
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.on_start = leave
    receiver.restart("again", None, 0)
    with pytest.raises(BaseException, match="leaving"):
        background(supervisor.await_termination).result(timeout=30)


def test_exit_in_the_store_hook_is_a_failed_push(
    supervise: Supervise, receiver: Noting, log: EventLog, store: FakeStore, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.storeRetries": "0"})
    supervisor.start()
    store.on_store = leave
    receiver.store("a")
    clock.await_waiters()
    clock.advance(200)
    with pytest.raises(BaseException, match="leaving"):
        background(supervisor.await_termination).result(timeout=30)
    (received,) = log.of(DeregisterReceiver)
    assert "(1 buffered records could not be stored and are lost)" in received.message
