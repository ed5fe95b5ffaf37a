"""The rate limit of a receiver: where it is set, and which calls it holds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ReceiverStoppedError
from penstock.receive.messages import ReportError, UpdateRateLimit
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]

MAX_RATE = "spark.streaming.receiver.maxRate"
INITIAL_RATE = "spark.streaming.backpressure.initialRate"


@pytest.mark.parametrize(
    ("conf", "rate"),
    [
        ({}, None),
        ({MAX_RATE: "50"}, 50),
        ({INITIAL_RATE: "10", MAX_RATE: "50"}, 10),
        ({INITIAL_RATE: "100", MAX_RATE: "50"}, 50),
    ],
    ids=["none", "maximum", "initial", "both"],
)
def test_initial_rate_comes_from_configuration(
    supervise: Supervise, receiver: Noting, conf: dict[str, str], rate: float | None
) -> None:
    supervise(receiver, conf).start()
    assert receiver.rate_limit == rate


@pytest.mark.parametrize(
    ("rate", "hint"), [("", 1000), ("1", 1), ("50", 10), ("100000", 1000)], ids=["none", "less than one", "some", "all"]
)
def test_hint_is_what_the_rate_lets_through_in_a_block_interval(
    supervise: Supervise, receiver: Noting, rate: str, hint: int
) -> None:
    supervise(receiver, {MAX_RATE: rate} if rate else {}).start()
    assert receiver.fetch_hint(1000) == hint


def test_hint_of_a_paused_receiver_is_one(supervise: Supervise, receiver: Noting) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(None, 1, paused=True))
    assert receiver.fetch_hint(1000) == 1


def test_an_on_rate_change_that_raises_is_reported_and_the_rate_is_in_force(
    supervise: Supervise, receiver: Noting, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_rate: float | None) -> None:
        raise RuntimeError("cannot slow down")

    supervisor = supervise(receiver)
    supervisor.start()
    monkeypatch.setattr(receiver, "on_rate_change", fail)
    supervisor.take(UpdateRateLimit(5, 1))
    assert receiver.rate_limit == 5
    (reported,) = log.of(ReportError)
    assert "cannot slow down" in reported.error
    assert receiver.isStarted()


@pytest.mark.parametrize(
    ("conf", "burst"),
    [
        ({}, 20),
        ({"spark.streaming.blockInterval": "50ms"}, 5),
        ({"spark.penstock.receiver.burst": "1s"}, 100),
        ({"spark.penstock.receiver.burst": "1ms"}, 1),
    ],
    ids=["default", "another block interval", "longer", "shorter than a record"],
)
def test_unused_permits_are_saved_for_the_burst_which_defaults_to_the_block_interval(
    supervise: Supervise,
    receiver: Noting,
    clock: ManualClock,
    background: Background,
    conf: dict[str, str],
    burst: int,
) -> None:
    supervisor = supervise(receiver, {MAX_RATE: "100", **conf})
    supervisor.start()
    clock.await_waiters()
    clock.advance(60_000)
    receiver.store_all(range(burst))
    storing = background(lambda: receiver.store(0))
    clock.await_waiters(2)
    assert supervisor.state.stored_records == burst
    assert not storing.done()
    clock.advance(10)
    storing.result(timeout=10)


def test_new_rate_wakes_waiting_callers(
    supervise: Supervise, receiver: Noting, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, {INITIAL_RATE: "0.001"})
    supervisor.start()
    receiver.store(0)
    storing = background(lambda: receiver.store(1))
    clock.await_waiters(2)
    supervisor.take(UpdateRateLimit(1_000_000, 1))
    clock.await_waiters(2)
    clock.advance(1)
    storing.result(timeout=10)


def test_restart_wakes_waiting_callers_and_later_ones_wait_again(
    supervise: Supervise, receiver: Noting, clock: ManualClock, background: Background, log: EventLog
) -> None:
    supervise(receiver, {INITIAL_RATE: "1"}).start()
    receiver.store(0)
    storing = background(lambda: receiver.store(1))
    clock.await_waiters(2)
    receiver.restart("again", None, 100)
    with pytest.raises(ReceiverStoppedError):
        storing.result(timeout=10)
    clock.await_waiters(2)
    clock.advance(100)
    log.await_count("onStart", 2)
    storing = background(lambda: receiver.store(2))
    clock.await_waiters(2)
    assert not storing.done()
    clock.advance(1000)
    storing.result(timeout=10)
