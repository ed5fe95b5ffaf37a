"""``store(record, on_stored=...)``: called when a record is accepted or lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import advance_until

from penstock.errors import ReceiverStoppedError, StoreError, summary_of
from penstock.receive.messages import AddBlocks, DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Callbacks:
    """The calls of ``on_stored`` callbacks, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[object, BaseException | None]] = []
        self._changed = threading.Condition()

    def of(self, name: object) -> Callable[[BaseException | None], None]:
        def note(error: BaseException | None) -> None:
            with self._changed:
                self.entries.append((name, error))
                self._changed.notify_all()

        return note

    def await_count(self, count: int) -> list[tuple[object, BaseException | None]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.entries) >= count, 10), self.entries
            return list(self.entries)


def tick(clock: ManualClock) -> None:
    clock.await_waiters()
    clock.advance(200)


def test_on_stored_is_called_when_the_driver_has_accepted_the_block(
    supervise: Supervise, receiver: Noting, driver: FakeDriver, clock: ManualClock
) -> None:
    received = Callbacks()
    supervise(receiver).start()
    driver.on_message = lambda message: isinstance(message, AddBlocks) and received.of("asked")(None)
    receiver.store("a", on_stored=received.of("a"))
    receiver.store("b")
    receiver.store("c", on_stored=received.of("c"))
    assert received.entries == []
    tick(clock)
    assert received.await_count(3) == [("asked", None), ("a", None), ("c", None)]
    receiver.store("d")
    receiver.store("e", received.of("e"))
    tick(clock)
    assert received.await_count(5)[3:] == [("asked", None), ("e", None)]


def test_flushed_records_are_reported_and_counted(
    supervise: Supervise, receiver: Noting, clock: ManualClock, log: EventLog
) -> None:
    received = Callbacks()
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store(0)
    tick(clock)
    log.await_count(AddBlocks)
    for number in range(1, 4):
        receiver.store(number, received.of(number))
    supervisor.stop("enough")
    assert received.entries == [(1, None), (2, None), (3, None)]
    (ended,) = log.of(DeregisterReceiver)
    assert (ended.message, ended.flushed, ended.dropped) == ("enough", 3, 0)
    assert supervisor.state.stored_records == 4
    with pytest.raises(ReceiverStoppedError):
        receiver.store(4, received.of(4))
    assert len(received.entries) == 3


def test_on_stored_of_a_lost_record_gets_the_error(
    supervise: Supervise, receiver: Noting, store: FakeStore, clock: ManualClock, log: EventLog
) -> None:
    received = Callbacks()
    supervisor = supervise(receiver, {"spark.penstock.receiver.storeRetries": "0"})
    supervisor.start()
    store.failures = 1
    receiver.store("a", received.of("a"))
    receiver.store("b", received.of("b"))
    tick(clock)
    with pytest.raises(StoreError):
        supervisor.await_termination()
    assert [(name, type(error)) for name, error in received.entries] == [("a", StoreError), ("b", StoreError)]
    (ended,) = log.of(DeregisterReceiver)
    assert (ended.flushed, ended.dropped) == (0, 2)


def test_on_stored_of_an_unpicklable_record_gets_its_error(
    supervise: Supervise, receiver: Noting, clock: ManualClock, log: EventLog
) -> None:
    received = Callbacks()
    supervise(receiver).start()
    for name, record in (("a", 1), ("lock", threading.Lock()), ("b", "x")):
        receiver.store(record, received.of(name))
    tick(clock)
    entries = received.await_count(3)
    assert [name for name, error in entries if error is None] == ["a", "b"]
    assert isinstance(entries[1][1], TypeError)


@pytest.mark.parametrize("raised", [KeyError("not mine"), asyncio.CancelledError("not mine")])
def test_error_of_a_callback_is_reported_and_others_are_still_called(
    supervise: Supervise, receiver: Noting, clock: ManualClock, log: EventLog, raised: BaseException
) -> None:
    def fail(_error: object) -> None:
        raise raised

    received = Callbacks()
    supervise(receiver).start()
    receiver.store(1, fail)
    receiver.store(2, received.of(2))
    tick(clock)
    assert received.await_count(1) == [(2, None)]
    log.await_count(ReportError)
    assert [report.message for report in log.of(ReportError)] == [f"on_stored failed - {summary_of(raised)}"]
    receiver.store(3, received.of(3))
    tick(clock)
    assert received.await_count(2) == [(2, None), (3, None)]


def test_on_stored_is_called_once_for_each_record_of_any_thread(
    supervise: Supervise, receiver: Noting, clock: ManualClock, background: Background
) -> None:
    received = Callbacks()
    supervisor = supervise(receiver, {"spark.penstock.receiver.maxBufferedRecords": "100"})
    supervisor.start()

    def store(thread: int) -> None:
        for number in range(200):
            receiver.store(number, received.of((thread, number)))

    storing = [background(lambda thread=thread: store(thread)) for thread in range(5)]  # type: ignore[misc]
    for future in storing:
        advance_until(clock, future.done, "all records are stored", 200)
        future.result(timeout=10)
    supervisor.stop("enough")
    assert sorted(name for name, _error in received.entries) == [(t, n) for t in range(5) for n in range(200)]  # type: ignore[type-var]
    assert all(error is None for _name, error in received.entries)
    for thread in range(5):
        assert [name for name, _error in received.entries if name[0] == thread] == [(thread, n) for n in range(200)]  # type: ignore[index]
