"""Exceptions on threads that a receiver has started restart it; those of other threads are left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Receiver
from penstock.receive.messages import ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.receive.receiver_threads import ThreadErrors
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog

Supervise = Callable[..., ReceiverSupervisor]


def fail() -> None:
    raise ConnectionResetError("reset by peer")


@pytest.fixture
def left_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.ExceptHookArgs]]:
    """What reaches the hook that was there before."""
    reached: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reached.append)
    yield reached
    # Holds frames and threads.
    reached.clear()


class Starts(Receiver[Any]):
    """Starts a thread in each run."""

    _thread: threading.Thread | None = None

    def __init__(self, log: EventLog, *targets: Callable[[Starts], object]) -> None:
        self._log = log
        self._targets = list(targets)

    def onStart(self) -> None:
        self._log.add("onStart")
        if self._targets:
            target = self._targets.pop(0)
            self._thread = threading.Thread(target=lambda: target(self), name="reader", daemon=True)
            self._thread.start()

    def onStop(self) -> None:
        self._log.add("onStop")
        if self._thread is not None:
            self._thread.join(10)


def run_thread(target: Callable[[], object]) -> None:
    thread = threading.Thread(target=target, name="somebody's")
    thread.start()
    thread.join(10)


def test_error_on_a_thread_of_the_receiver_restarts_it(
    supervise: Supervise, log: EventLog, clock: ManualClock, left_alone: list[Any]
) -> None:
    supervise(Starts(log, lambda _receiver: fail())).start()
    log.await_count(ReportError)
    clock.await_waiters(2)
    clock.advance(30_000)
    log.await_count("onStart", 2)
    (reported,) = log.of(ReportError)
    assert reported.message == "Error on thread reader: ConnectionResetError: reset by peer"
    assert "in fail" in reported.error
    assert left_alone == []


def test_error_of_a_thread_that_was_there_before_is_left_alone(
    supervise: Supervise, log: EventLog, left_alone: list[Any]
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def wait_and_fail() -> None:
        started.set()
        go_on.wait(10)
        fail()

    thread = threading.Thread(target=wait_and_fail)
    thread.start()
    assert started.wait(10)
    supervisor = supervise(Starts(log))
    supervisor.start()
    go_on.set()
    thread.join(10)
    assert [type(args.exc_value) for args in left_alone] == [ConnectionResetError]
    supervisor.stop("enough")
    assert log.of(ReportError) == []


def test_error_between_two_receivers_belongs_to_the_one_on_its_traceback(
    supervise: Supervise, log: EventLog, left_alone: list[Any]
) -> None:
    first, second = Starts(log), Starts(log)
    for receiver in (first, second):
        supervise(receiver).start()

    class Client:
        def call(self, owner: Receiver[Any] | None) -> None:
            if owner is not None:
                owner.store_all(fail())  # type: ignore[func-returns-value,arg-type]
            fail()

    run_thread(lambda: Client().call(None))
    assert len(left_alone) == 1
    run_thread(lambda: Client().call(second))
    log.await_count("onStop")
    assert (first.isStopped(), second.isStopped(), len(left_alone)) == (False, True, 1)


def test_hook_is_restored_after_the_last_receiver(supervise: Supervise, log: EventLog) -> None:
    before = threading.excepthook
    supervisors = [supervise(Starts(log)) for _ in range(2)]
    for supervisor in supervisors:
        supervisor.start()
    assert threading.excepthook is not before
    supervisors[0].stop("enough")
    assert threading.excepthook is not before
    supervisors[1].stop("enough")
    assert threading.excepthook is before


def test_hook_that_was_set_meanwhile_stays(supervise: Supervise, log: EventLog, left_alone: list[Any]) -> None:
    supervisor = supervise(Starts(log))
    supervisor.start()
    ours = threading.excepthook

    def later(args: Any) -> None:
        ours(args)

    threading.excepthook = later
    supervisor.stop("enough")
    assert threading.excepthook is later
    run_thread(fail)
    assert len(left_alone) == 1


def test_start_and_stop_are_idempotent(log: EventLog) -> None:
    before = threading.excepthook
    watch = ThreadErrors(Starts(log), lambda _thread, _error: None)
    watch.stop()
    watch.start()
    watch.start()
    watch.stop()
    watch.stop()
    assert threading.excepthook is before
