"""A full disk: the receiver pauses and retries, and loses no record that a store returned for."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import await_blocked

from penstock import Block
from penstock.errors import StoreError
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]
Drive = Callable[["Future[Any]"], Any]
BROKEN = OSError(errno.EIO, "Input/output error")
FULL = [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "Quota exceeded")]


def fail_with(monkeypatch: pytest.MonkeyPatch, store: FakeStore, *errors: OSError) -> None:
    """Have the next tries fail, one after the other."""
    left = list(errors)

    def on_store(_block: Block) -> None:
        if left:
            raise left.pop(0)

    monkeypatch.setattr(store, "on_store", on_store)


@pytest.mark.parametrize("error", FULL, ids=["space", "quota"])
def test_full_disk_is_retried_longer_than_other_errors(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    log: EventLog,
    records: Callable[[], list[Any]],
    background: Background,
    drive: Drive,
    error: OSError,
) -> None:
    supervise(receiver, {"spark.penstock.receiver.storeRetries": "1"}).start()
    store.failures, store.error = 25, error
    drive(background(lambda: receiver.store_all(["a", "b"])))
    assert store.tries == 26
    assert records() == ["a", "b"]
    # Reported on a thread of its own.
    received = log.await_one(ReportError)
    assert received.message.startswith("the disk is full: the receiver pauses until there is room - OSError: [Errno ")
    assert str(error.strerror) in received.error
    assert receiver.isStarted()
    drive(background(lambda: receiver.store_all(["c"])))
    assert records() == ["a", "b", "c"]


def test_no_record_is_accepted_during_a_restart(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    log: EventLog,
    clock: ManualClock,
    records: Callable[[], list[Any]],
    background: Background,
    drive: Drive,
) -> None:
    supervise(receiver).start()
    store.failures, store.error = 10**9, FULL[0]
    first = background(lambda: receiver.store_all([1]))
    log.await_count(ReportError)
    others = [background(lambda: receiver.store_all([2])), background(lambda: receiver.store(3))]
    for _ in range(10):
        clock.advance(1000)
        threading.Event().wait(0.002)
    assert not any(future.done() for future in (first, *others))
    store.failures = 0
    for future in (first, *others):
        drive(future)
    assert [name for name in log.names if name == "ReportError"] == ["ReportError"]
    receiver.store(4)
    receiver.stop("enough")
    log.await_count(DeregisterReceiver)
    assert sorted(records()) == [1, 2, 3, 4]


def test_stop_during_a_full_disk_retries_as_for_other_errors(
    supervise: Supervise, receiver: Noting, store: FakeStore, log: EventLog, background: Background, drive: Drive
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.storeRetries": "2"})
    supervisor.start()
    store.failures, store.error = 10**9, FULL[0]
    storing = background(lambda: receiver.store_all([1]))
    log.await_count(ReportError)
    stopping = background(lambda: supervisor.stop("enough"))
    with pytest.raises(StoreError, match=r"3 attempts \(spark\.[A-Za-z.]+\): .*No space left on device"):
        drive(storing)
    drive(stopping)
    assert log.names[-1] == "DeregisterReceiver"


def test_another_error_after_a_full_disk_ends_the_pause(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    monkeypatch: pytest.MonkeyPatch,
    records: Callable[[], list[Any]],
    background: Background,
    drive: Drive,
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.storeRetries": "1"})
    supervisor.start()
    fail_with(monkeypatch, store, FULL[0], BROKEN, BROKEN)
    with pytest.raises(StoreError, match=r"2 attempts \(spark\.[A-Za-z.]+\): .*Input/output error"):
        drive(background(lambda: receiver.store_all([1])))
    drive(background(lambda: receiver.store_all([2])))
    assert records() == [2]


def test_pause_ends_when_no_block_waits_for_disk_space(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    log: EventLog,
    gate: Gate,
    background: Background,
    drive: Drive,
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()

    large_waits, has_room, tried = threading.Event(), threading.Event(), list[str]()

    def on_store(block: Block) -> None:
        (record,) = block.records()
        tried.append(record)
        if record == "large":
            if tried.count("large") == 1:
                gate()
            else:
                large_waits.set()
        if (record == "large" and not has_room.is_set()) or (record == "small" and not large_waits.is_set()):
            raise FULL[0]

    store.on_store = on_store
    large = background(lambda: receiver.store_all(["large"]))
    assert gate.reached.wait(10)
    # Both are past the limiter; the small one finds no room until the large one waits, too.
    small = background(lambda: receiver.store_all(["small"]))
    log.await_count(ReportError)
    gate.open()
    drive(small)
    later = background(lambda: receiver.store_all(["later"]))
    await_blocked(RateLimiter.acquire)
    has_room.set()
    drive(large)
    drive(later)
    assert len(log.of(ReportError)) == 1


def test_retries_of_other_errors_are_counted_separately(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    monkeypatch: pytest.MonkeyPatch,
    records: Callable[[], list[Any]],
    background: Background,
    drive: Drive,
) -> None:
    supervise(receiver, {"spark.penstock.receiver.storeRetries": "2"}).start()
    fail_with(monkeypatch, store, *FULL * 3, BROKEN, FULL[0], BROKEN)
    drive(background(lambda: receiver.store_all([1])))
    assert records() == [1]
