"""``ThreadReceiver``: one supervised thread."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock import ThreadReceiver
from penstock.errors import StreamingStateError
from penstock.receive import thread_receiver
from penstock.receive.messages import ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Scripted(ThreadReceiver[Any]):
    """Runs one function in each run of ``receive``."""

    def __init__(self, log: EventLog, *runs: Callable[[Scripted], object]) -> None:
        self._log = log
        self._runs = list(runs)

    def receive(self) -> None:
        self._log.add("receive")
        if self._runs:
            self._runs.pop(0)(self)
        self._log.add("returned")


def fail(_receiver: Scripted) -> None:
    raise OSError("reset by peer")


def wait(receiver: Scripted) -> None:
    assert receiver.wait(60)
    assert receiver.isStopped()


def test_receive_runs_on_a_thread_of_its_own(supervise: Supervise, log: EventLog) -> None:
    threads: list[threading.Thread] = []
    supervise(Scripted(log, lambda _receiver: threads.append(threading.current_thread()))).start()
    log.await_count("returned")
    (thread,) = threads
    assert (thread.name, thread.daemon) == ("Scripted-3", True)


def test_receive_that_returns_ends_the_source_without_error(
    supervise: Supervise, log: EventLog, records: Callable[[], list[Any]]
) -> None:
    receiver = Scripted(log, lambda receiver: receiver.store_all([1, 2]))
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("returned")
    assert (receiver.isStarted(), receiver.isStopped()) == (True, False)
    supervisor.stop("enough")
    supervisor.await_termination()
    assert records() == [1, 2]
    assert log.names == ["RegisterReceiver", "receive", "AddBlocks", "returned", "DeregisterReceiver"]


def test_receive_that_returns_by_accident_is_logged_as_a_warning(
    supervise: Supervise, log: EventLog, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Scripted(
        log, lambda _receiver: None, lambda receiver: receiver.source_ended("all sent"), lambda _r: None
    )
    supervisor = supervise(receiver)
    supervisor.start()
    warnings = []
    for runs in (1, 2, 3):
        log.await_count("returned", runs)
        if runs < 3:
            receiver.restart("again", None, 0)
            log.await_count("receive", runs + 1)
    supervisor.stop("enough")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    for warning in warnings:
        assert "receive returned, the stream gets no more records" in warning
        assert "receiver=Scripted" in warning
        assert "source_ended()" in warning


class WokenFirst(ThreadReceiver[int]):
    """Wakes its read before it calls the inherited ``onStop``, as receivers do that override it."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.returned = threading.Event()

    def receive(self) -> None:
        self.woken.wait(20)
        self.returned.set()

    def onStop(self) -> None:
        self.woken.set()
        self.returned.wait(20)
        # The thread ends at the latest now, before the inherited method has noted the stop.
        for thread in threading.enumerate():
            if thread.name.startswith("WokenFirst"):
                thread.join(20)
        super().onStop()


def test_receive_that_is_woken_by_the_stop_returns_without_a_warning(
    supervise: Supervise, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = WokenFirst()
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.stop("enough")
    assert receiver.returned.is_set()
    assert "receive returned" not in caplog.text


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda receiver: receiver.restart("again", None, 0), id="restart"),
        pytest.param(lambda receiver: receiver.stop("enough"), id="stop"),
    ],
)
def test_receive_that_asks_for_a_restart_or_a_stop_returns_without_a_warning(
    supervise: Supervise, log: EventLog, caplog: pytest.LogCaptureFixture, leave: Callable[[Scripted], None]
) -> None:
    supervisor = supervise(Scripted(log, leave, wait))
    supervisor.start()
    log.await_count("returned")
    supervisor.stop("enough")
    assert "receive returned" not in caplog.text


def test_error_of_receive_restarts_the_receiver(supervise: Supervise, log: EventLog, clock: ManualClock) -> None:
    supervise(Scripted(log, fail, fail, wait)).start()
    for restarts in (1, 2):
        log.await_count(ReportError, restarts)
        clock.await_waiters(2)
        clock.advance(30_000)
        log.await_count("receive", restarts + 1)
    first, _second = log.of(ReportError)
    assert re.fullmatch(
        r"Error receiving data: OSError: reset by peer \(test_thread_receiver\.py:\d+ in fail\)", first.message
    )
    assert "OSError: reset by peer" in first.error


def test_stop_ends_a_wait(supervise: Supervise, log: EventLog, background: Background) -> None:
    supervisor = supervise(Scripted(log, wait))
    supervisor.start()
    log.await_count("receive")
    background(lambda: supervisor.stop("enough")).result(timeout=30)
    log.await_count("returned")
    assert log.of(ReportError) == []


def test_wait_lasts_its_time_without_a_stop(supervise: Supervise, log: EventLog) -> None:
    said: list[bool] = []

    def pause(receiver: Scripted) -> None:
        said.append(receiver.wait(0.001))

    supervise(Scripted(log, pause)).start()
    log.await_count("returned")
    assert said == [False]


def test_before_it_runs_a_wait_returns_at_once(log: EventLog) -> None:
    receiver = Scripted(log)
    assert not receiver.wait(60)
    assert not receiver.isStopped()


def test_error_of_receive_after_a_stop_is_ignored(supervise: Supervise, log: EventLog) -> None:
    def closed(receiver: Scripted) -> None:
        receiver.wait(60)
        raise OSError("read on a closed socket")

    supervisor = supervise(Scripted(log, closed))
    supervisor.start()
    log.await_count("receive")
    supervisor.stop("enough")
    supervisor.await_termination()
    assert log.of(ReportError) == []
    assert log.names.count("receive") == 1


def test_stop_waits_for_receive_to_store_its_last(
    supervise: Supervise, log: EventLog, records: Callable[[], list[Any]]
) -> None:
    def drain(receiver: Scripted) -> None:
        receiver.wait(60)
        receiver.store("last")
        receiver.store_all(["very last"])

    supervisor = supervise(Scripted(log, drain))
    supervisor.start()
    log.await_count("receive")
    supervisor.stop("enough")
    assert sorted(records()) == ["last", "very last"]


def test_receive_that_does_not_return_does_not_block_the_stop(
    supervise: Supervise, log: EventLog, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_receiver, "_JOIN_S", 0.01)
    gate = threading.Event()
    supervisor = supervise(Scripted(log, lambda _receiver: gate.wait(100)))
    supervisor.start()
    log.await_count("receive")
    background(lambda: supervisor.stop("enough")).result(timeout=30)
    gate.set()
    log.await_count("returned")


def test_receive_that_does_not_return_is_not_started_twice(
    supervise: Supervise, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_receiver, "_JOIN_S", 0.01)
    gate = threading.Event()
    receiver = Scripted(log, lambda _receiver: gate.wait(30))
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("receive")
    receiver.restart("again", None, 0)
    with pytest.raises(StreamingStateError, match=r"Scripted\.receive of the last run has not returned"):
        supervisor.await_termination()
    assert log.names.count("receive") == 1
    gate.set()
    log.await_count("returned")


def test_after_a_restart_it_waits_anew(supervise: Supervise, log: EventLog) -> None:
    receiver = Scripted(log, wait, wait)
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("receive")
    receiver.restart("again", None, 0)
    log.await_count("receive", 2)
    assert not receiver.isStopped()
    supervisor.stop("enough")
    log.await_count("returned", 2)


def test_receive_must_be_written() -> None:
    class Forgot(ThreadReceiver[str]):
        pass

    with pytest.raises(TypeError, match=r"Forgot.*receive"):
        Forgot()  # type: ignore[abstract]  # that is the point


class Plain(ThreadReceiver[str]):
    def __init__(self, host: str) -> None:
        self.host = host

    def receive(self) -> None:
        """Nothing to receive."""


def test_message_survives_json() -> None:
    copy = pickle.loads(pickle.dumps(Plain("there")))
    assert (type(copy), vars(copy)) == (Plain, {"host": "there"})
