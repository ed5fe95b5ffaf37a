"""``ReceiverSupervisor``: starts and stops of a receiver, and the messages that the driver gets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import await_blocked

from penstock import Block
from penstock.errors import ReceiverRefusedError, ReceiverStoppedError, WireError
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import AddBlocks, DeregisterReceiver, RegisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import FakeDriver, FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]
Records = Callable[[], list[Any]]


def boom(*_args: object) -> None:
    raise RuntimeError("boom")


def test_stop_calls_onStop_flushes_and_deregisters_in_this_order(
    supervise: Supervise, receiver: Noting, log: EventLog, records: Records
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    for n in range(3):
        receiver.store(n)

    def store_the_rest() -> None:
        receiver.store(3)
        receiver.store_all([4, 5])
        receiver.store(6)

    receiver.on_stop = store_the_rest
    supervisor.stop("enough")
    assert log.names == ["RegisterReceiver", "onStart", "onStop", "AddBlocks", "AddBlocks", "DeregisterReceiver"]
    assert sorted(records()) == list(range(7))
    assert log.of(DeregisterReceiver) == [DeregisterReceiver(3, 7, "enough", "", flushed=5, ended=True)]
    assert (supervisor.state.is_started, supervisor.state.is_stopped) == (False, True)
    assert supervisor.state.stored_records == 7


def test_awaiting_its_end_raises_the_error_that_stopped_it(
    supervise: Supervise, receiver: Noting, log: EventLog
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    error = ValueError("the reason")
    receiver.stop("it failed", error)
    with pytest.raises(ValueError, match="the reason") as caught:
        supervisor.await_termination()
    assert caught.value is error
    (received,) = log.of(DeregisterReceiver)
    assert received.message == "it failed - ValueError: the reason"
    assert "ValueError: the reason" in received.error


def test_stop_is_idempotent(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, background: Background
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.on_stop = gate
    stopping = [background(lambda: supervisor.stop("first")) for _ in range(3)]
    assert gate.reached.wait(10)
    gate.open()
    for future in stopping:
        future.result(timeout=10)
    supervisor.stop("again", RuntimeError("too late"))
    supervisor.await_termination()
    assert log.names.count("onStop") == 1
    assert [received.message for received in log.of(DeregisterReceiver)] == ["first"]


def test_a_receiver_can_stop_itself_from_any_call(supervise: Supervise, receiver: Noting, log: EventLog) -> None:
    supervisor = supervise(receiver)
    receiver.on_start = lambda: receiver.stop("in onStart")
    receiver.on_stop = lambda: receiver.stop("in onStop")
    supervisor.start()
    supervisor.await_termination()
    assert [received.message for received in log.of(DeregisterReceiver)] == ["in onStart"]


def test_after_stop_nothing_is_stored(supervise: Supervise, receiver: Noting, driver: FakeDriver) -> None:
    import pyarrow as pa

    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.stop("enough")
    stores: list[Callable[[], None]] = [
        lambda: receiver.store(1),
        lambda: receiver.store_all([1]),
        lambda: receiver.store_arrow(pa.table({"a": [1]})),
    ]
    for store in stores:
        with pytest.raises(ReceiverStoppedError):
            store()
    assert driver.blocks == []


def test_stop_waits_for_a_store_in_progress(
    supervise: Supervise, receiver: Noting, log: EventLog, store: FakeStore, gate: Gate, background: Background
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    store.on_store = gate
    storing = background(lambda: receiver.store_all([1, 2]))
    assert gate.reached.wait(10)
    stopping = background(lambda: supervisor.stop("enough"))
    log.await_count("onStop")
    await_blocked(BlockPusher.stop)
    gate.open()
    storing.result(timeout=10)
    stopping.result(timeout=10)
    assert log.names[-2:] == ["AddBlocks", "DeregisterReceiver"]


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit("boom")], ids=lambda error: type(error).__name__)
def test_error_of_onStop_is_reported_and_the_stop_continues(
    supervise: Supervise, receiver: Noting, log: EventLog, records: Records, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store("buffered")
    receiver.on_stop = fail
    supervisor.stop("enough")
    supervisor.await_termination()
    assert log.names == ["RegisterReceiver", "onStart", "onStop", "ReportError", "AddBlocks", "DeregisterReceiver"]
    (reported,) = log.of(ReportError)
    text = f"{type(error).__name__}: boom"
    assert (reported.message, text in reported.error) == (f"onStop failed - {text}", True)
    assert records() == ["buffered"]


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (
            "the application is stopping",
            ReceiverRefusedError,
            "refused to start receiver 3: the application is stopping",
        ),
        ("", WireError, "RegisterReceiver"),
    ],
    ids=["refused", "no driver"],
)
def test_a_receiver_that_is_not_registered_is_not_started(
    supervise: Supervise,
    receiver: Noting,
    log: EventLog,
    driver: FakeDriver,
    refusal: str,
    error: type[Exception],
    words: str,
) -> None:
    driver.refuse_receiver = refusal
    driver.failures[RegisterReceiver] = 0 if refusal else 1
    supervisor = supervise(receiver)
    supervisor.start()
    with pytest.raises(error, match=words):
        supervisor.await_termination()
    assert "onStart" not in log.entries
    assert "onStop" not in log.entries


def test_stop_succeeds_without_the_driver(supervise: Supervise, receiver: Noting, driver: FakeDriver) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    driver.failures[DeregisterReceiver] = 1
    supervisor.stop("enough")
    supervisor.await_termination()


def test_reported_error_does_not_stop_the_receiver(
    supervise: Supervise, receiver: Noting, log: EventLog, driver: FakeDriver
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    try:
        boom()
    except RuntimeError as error:
        receiver.reportError("something happened", error)
    receiver.reportError("and again")
    first, second = log.of(ReportError)
    assert (first.stream_id, first.epoch, first.message) == (3, 7, "something happened - RuntimeError: boom")
    assert "in boom" in first.error
    assert "RuntimeError: boom" in first.error
    assert (second.message, second.error) == ("and again", "")
    driver.failures[ReportError] = 1
    receiver.reportError("unheard")
    assert receiver.isStarted()


@pytest.mark.parametrize("error", [OSError("boom"), SystemExit("boom")], ids=lambda error: type(error).__name__)
def test_a_push_that_fails_for_good_stops_the_receiver_with_that_error(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    clock: ManualClock,
    log: EventLog,
    error: BaseException,
) -> None:
    def fail(_block: Block) -> None:
        raise error

    supervisor = supervise(receiver, {"spark.penstock.receiver.storeRetries": "0"})
    supervisor.start()
    store.on_store = fail
    for n in range(5):
        receiver.store(n)
    clock.await_waiters()
    clock.advance(200)
    with pytest.raises(BaseException, match="boom"):
        supervisor.await_termination()
    (received,) = log.of(DeregisterReceiver)
    assert "(5 buffered records could not be stored and are lost)" in received.message
    assert f"{type(error).__name__}: boom" in received.error
    assert log.of(AddBlocks) == []
    with pytest.raises(ReceiverStoppedError):
        receiver.store(5)
