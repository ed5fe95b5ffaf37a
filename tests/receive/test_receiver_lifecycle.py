"""The life cycle of a running receiver as tables: a record, events, the record and the effects that follow."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import pytest
from attrs import evolve

from penstock.conf import Settings
from penstock.errors import ReceiverStoppedError, ReceiverStuckError
from penstock.receive import running_receiver as events
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.receiver_lifecycle import step
from penstock.receive.running_receiver import (
    AwaitingRestart,
    Created,
    Deregistering,
    Draining,
    Effect,
    Event,
    Flushing,
    Intake,
    Interrupted,
    Receiving,
    Registering,
    Starting,
    Stopping,
    Terminated,
    new_receiver,
)

E = TypeVar("E")
SETTINGS = evolve(
    Settings.parse({}),
    start_timeout_ms=60_000,
    stop_timeout_ms=5000,
    receiver_restart_delay_ms=1000,
)
BOOM, LOST = ValueError("boom"), OSError("connection lost")
ACCEPTED, RETURNED, LATE = events.RegistrationAnswered(), events.CallReturned(), events.CallReturned(in_time=False)
START = (events.StartRequested(), ACCEPTED)
RUN = (*START, events.CallReturned())
RESTART, STOP = events.RestartRequested("again", LOST, 100), events.StopRequested("enough")
DRAINED = (RETURNED, events.Flushed(), RETURNED)
DELIVERED = events.Deregistered(True)


class Life:
    """A record that events are given to; the effects of the last event, and of all."""

    def __init__(self, *taken: Event, **settings: Any) -> None:
        self.receiver = new_receiver(3, evolve(SETTINGS, **settings))
        self.now_ms = 0.0
        self.effects: tuple[Effect, ...] = ()
        self.all: list[Effect] = []
        self.take(*taken)

    def take(self, *taken: Event, after_ms: float = 0) -> Life:
        self.now_ms += after_ms
        for event in taken:
            self.receiver, effects = step(self.receiver, event, self.now_ms)
            self.effects = tuple(inner for effect in effects for inner in getattr(effect, "effects", (effect,)))
            self.all += self.effects
        return self

    def of(self, kind: type[E]) -> list[E]:
        """The effects of a class so far."""
        return [effect for effect in self.all if isinstance(effect, kind)]

    @property
    def state(self) -> object:
        return self.receiver.state

    @property
    def calls(self) -> list[str]:
        """The activities so far, in order, without those that return at once."""
        kinds = events.Register, events.Call, events.Flush, events.Deregister, events.Report
        return [getattr(effect, "method", type(effect).__name__) for effect in self.all if isinstance(effect, kinds)]


def test_start_registers_before_onStart() -> None:
    life = Life(events.StartRequested())
    assert (life.state, life.effects) == (Registering(), (events.Register(),))
    life.take(ACCEPTED)
    assert life.state == Starting(0, 0)
    assert life.effects == (events.Call("onStart"),)
    assert (life.receiver.intake, life.receiver.watches_threads) == (Intake.OPEN, True)
    life = Life(*RUN)
    assert life.state == Receiving()
    assert not life.effects
    assert (life.receiver.is_started, life.receiver.is_stopped) == (True, False)


def test_order_of_a_stop() -> None:
    life = Life(*RUN, STOP, *DRAINED, DELIVERED)
    assert life.calls == ["Register", "onStart", "onStop", "Flush", "on_drained", "Deregister"]
    assert life.of(events.Flush) == [events.Flush(is_final=True)]
    assert life.of(events.Deregister) == [events.Deregister("enough", None, ended=True)]
    assert life.state == Terminated(None, is_deregistered=True)
    assert not life.effects
    assert (life.receiver.intake, life.receiver.watches_threads) == (Intake.WITHOUT_WAITING, False)


def test_order_of_a_restart() -> None:
    life = Life(*RUN, RESTART, *DRAINED, DELIVERED)
    assert life.calls[2:] == ["Report", "onStop", "Flush", "on_drained", "Deregister"]
    assert life.of(events.Flush) == [events.Flush(is_final=False)]
    assert life.of(events.Deregister) == [
        events.Deregister("Restarting receiver with delay 100 ms: again", LOST, restart_delay_ms=100)
    ]
    assert (life.state, life.effects) == (AwaitingRestart(), (events.AwaitRestart(100),))
    assert (life.receiver.is_started, life.receiver.is_stopped) == (False, True)
    life.take(events.RestartDelayOver())
    assert (life.state, life.effects) == (Registering(), (events.Register(),))
    assert life.receiver.is_stopped
    life.take(ACCEPTED, events.CallReturned())
    assert life.state == Receiving()


def test_counts_of_the_final_flush_reach_the_driver() -> None:
    life = Life(*RUN, STOP, RETURNED, events.Flushed(flushed=3, dropped=2), RETURNED)
    message = "enough (2 buffered records could not be stored and are lost)"
    assert life.of(events.Deregister) == [events.Deregister(message, None, 3, 2, ended=True)]


def test_failed_registration_ends_the_receiver() -> None:
    life = Life(events.StartRequested(), events.RegistrationAnswered(LOST))
    assert life.receiver.is_ending
    assert life.effects == (events.Flush(is_final=True),)
    life.take(events.Flushed())
    # The driver does not know the receiver.
    assert life.of(events.Deregister) == []
    assert [log.event for log in life.of(events.Log)] == ["receiver stopped before its start"]
    assert life.state == Terminated(LOST)


def test_refused_restart_ends_the_receiver_and_the_driver_is_notified() -> None:
    life = Life(*RUN, RESTART, *DRAINED, DELIVERED, events.RestartDelayOver(), events.RegistrationAnswered(LOST))
    life.take(events.Flushed(), DELIVERED)
    assert life.of(events.Deregister)[-1].ended
    assert life.state == Terminated(LOST, is_deregistered=True)


def test_error_of_onStart_ends_the_receiver_with_onStop() -> None:
    life = Life(*START, events.CallReturned(BOOM))
    assert life.receiver.start_error is BOOM
    assert life.calls[-1] == "onStop"
    life.take(*DRAINED, DELIVERED)
    assert life.state == Terminated(BOOM, is_deregistered=True)
    assert life.of(events.Deregister)[0].message == "Error starting receiver 3: ValueError: boom"


# -- interruption and abandonment of onStart --


@pytest.mark.parametrize("event", [RESTART, STOP], ids=["restart", "stop"])
@pytest.mark.parametrize("error", [None, BOOM], ids=["returns", "raises"])
def test_interrupted_onStart_ends_first(event: Event, error: BaseException | None) -> None:
    life = Life(*START, event)
    assert isinstance(life.state, Interrupted)
    assert [life.receiver.intake] == [Intake.CLOSED]
    assert "onStop" not in life.calls
    assert (life.receiver.is_started, life.receiver.is_stopped) == (True, True)
    life.take(events.CallReturned(error))
    # Its error follows from the interruption.
    assert isinstance(life.state, Stopping)
    assert life.receiver.start_error is None
    assert life.receiver.intake is Intake.WITHOUT_WAITING


def test_onStart_that_ignores_a_stop_is_abandoned_after_the_stop_timeout() -> None:
    life = Life(*START, STOP)
    assert life.of(events.AwaitDeadline) == [events.AwaitDeadline(5000)]
    life.take(events.Tick(), after_ms=4999)
    assert life.effects == ()
    life.take(events.Tick(), after_ms=1)
    assert life.calls[-1] == "Flush"
    # onStop and on_drained are not called: a thread is still in onStart.
    life.take(events.Flushed(), DELIVERED)
    assert not {"onStop", "on_drained"} & set(life.calls)
    assert isinstance(life.state, Terminated)
    assert isinstance(life.state.error, ReceiverStuckError)
    assert "5 s after a stop" in str(life.state.error)
    before = life.receiver
    assert life.take(events.CallReturned()).receiver == before


def test_stop_without_a_timeout_waits_for_onStart() -> None:
    life = Life(*START, STOP, stop_timeout_ms=0, start_timeout_ms=0)
    assert life.of(events.AwaitDeadline) == []
    life.take(events.Tick(), after_ms=10**9)
    assert isinstance(life.state, Interrupted)


@pytest.mark.parametrize("event", [None, RESTART, STOP], ids=["running", "restart", "stop"])
def test_onStart_that_exceeds_the_start_timeout_is_abandoned(event: Event | None) -> None:
    life = Life(stop_timeout_ms=0).take(*START, *([event] if event else []), after_ms=100_000)
    life.take(events.Tick(), after_ms=59_999)
    assert not isinstance(life.state, Flushing)
    life.take(events.Tick(), after_ms=1)
    assert isinstance(life.state, Flushing)
    life.take(events.Flushed(), DELIVERED)
    assert isinstance(life.state, Terminated)
    assert "onStart has not returned for 60 s" in str(life.state.error)


def test_onStart_that_stores_is_reported_once() -> None:
    life = Life(*START, events.BlocksAccepted(5))
    life.take(events.Tick(), after_ms=60_000)
    assert [report.message.partition(": ")[2] for report in life.of(events.Report)] == [
        "derive from ThreadReceiver, or start a thread"
    ]
    life.take(events.Tick(), events.Tick(), after_ms=60_000)
    assert len(life.of(events.Report)) == 1
    assert life.take(events.CallReturned()).state == Receiving()


# -- a restart meets other events --

IN_RESTART = {
    "Interrupted": (*START, RESTART),
    "Stopping": (*RUN, RESTART),
    "Flushing": (*RUN, RESTART, RETURNED),
    "Draining": (*RUN, RESTART, RETURNED, events.Flushed()),
    "Deregistering": (*RUN, RESTART, *DRAINED),
    "AwaitingRestart": (*RUN, RESTART, *DRAINED, DELIVERED),
    "Registering": (*RUN, RESTART, *DRAINED, DELIVERED, events.RestartDelayOver()),
}
in_restart = pytest.mark.parametrize("taken", IN_RESTART.values(), ids=IN_RESTART)


@in_restart
def test_further_restarts_are_ignored_until_onStart_runs_again(taken: tuple[Event, ...]) -> None:
    life = Life(*taken)
    before = life.receiver
    life.take(events.RestartRequested("another", BOOM))
    assert (life.receiver, life.effects) == (before, ())


@in_restart
def test_stop_takes_the_place_of_a_restart(taken: tuple[Event, ...]) -> None:
    life = Life(*taken, STOP)
    assert life.receiver.is_ending
    ends: dict[type, Event] = {
        Interrupted: events.CallReturned(),
        Stopping: RETURNED,
        Flushing: events.Flushed(),
        Draining: RETURNED,
        Deregistering: DELIVERED,
        Registering: ACCEPTED,
    }
    for _ in range(10):
        if not isinstance(life.state, Terminated):
            life.take(ends[type(life.state)])
    assert life.state == Terminated(None, is_deregistered=True)
    # Once in each run, whatever came in between; the error of the restart is reported, too.
    assert [life.calls.count(name) for name in ("onStart", "onStop", "on_drained")] == [1, 1, 1]
    assert life.of(events.Flush)[-1].is_final
    assert life.of(events.Report) == [events.Report("again", LOST)]
    ended = [message for message in life.of(events.Deregister) if message.ended]
    assert ended == [events.Deregister("enough", None, ended=True)]
    assert life.take(events.RestartDelayOver()).effects == ()


def test_on_drained_follows_the_final_flush_if_a_stop_comes_during_that_of_a_restart() -> None:
    life = Life(*RUN, RESTART, RETURNED, STOP, events.Flushed(), events.Flushed(1, 0), RETURNED)
    assert life.calls[-4:] == ["Flush", "Flush", "on_drained", "Deregister"]
    assert life.of(events.Deregister) == [events.Deregister("enough", None, 1, 0, ended=True)]


@pytest.mark.parametrize(
    "taken", [RUN, (*RUN, STOP), (*RUN, STOP, RETURNED), (*RUN, STOP, *DRAINED), (*RUN, STOP, *DRAINED, DELIVERED)]
)
def test_second_stop_and_a_restart_after_it_change_nothing(taken: tuple[Event, ...]) -> None:
    life = Life(*taken, STOP)
    before = life.receiver
    life.take(events.StopRequested("again", BOOM), RESTART, events.ThreadFailed("reader", BOOM))
    assert life.receiver == before
    assert [effect for effect in life.effects if not isinstance(effect, events.Log)] == []


def test_stop_before_the_start() -> None:
    life = Life(STOP, events.Flushed())
    assert life.state == Terminated()
    assert life.calls == ["Flush"]
    assert life.take(events.StartRequested()).effects == ()


def test_error_of_a_stop_fails_the_task() -> None:
    life = Life(*RUN, events.StopRequested("no use", BOOM), *DRAINED, DELIVERED)
    assert life.of(events.Deregister)[0].message == "no use - ValueError: boom"
    assert life.state == Terminated(BOOM, is_deregistered=True)
    text: Any = "the reason, as text"
    life = Life(*RUN, events.StopRequested("no use", text), *DRAINED, events.Deregistered(False))
    assert isinstance(life.state, Terminated)
    assert isinstance(life.state.error, ReceiverStoppedError)
    assert not life.state.is_deregistered


# -- onStop and on_drained --


def test_onStop_that_does_not_return_fails_the_task_of_a_stop() -> None:
    life = Life(*RUN, STOP, LATE, events.Flushed(1, 0), DELIVERED)
    assert life.calls[2:] == ["onStop", "Report", "Flush", "Deregister"]
    assert life.of(events.Deregister) == [events.Deregister("enough", None, 1, 0, ended=True)]
    assert isinstance(life.state, Terminated)
    assert isinstance(life.state.error, ReceiverStuckError)
    own = Life(*RUN, events.StopRequested("no use", BOOM), LATE, events.Flushed(), DELIVERED)
    assert own.state == Terminated(BOOM, is_deregistered=True)


def test_onStop_that_does_not_return_turns_a_restart_into_a_stop() -> None:
    life = Life(*RUN, RESTART, LATE, events.Flushed(), DELIVERED)
    assert life.of(events.Flush) == [events.Flush(is_final=True)]
    assert life.of(events.Deregister)[0].message.startswith("onStop has not returned for 5 s")
    assert isinstance(life.state, Terminated)
    assert isinstance(life.state.error, ReceiverStuckError)


def test_errors_of_onStop_and_on_drained_are_reported() -> None:
    failed = events.CallReturned(BOOM)
    life = Life(*RUN, STOP, failed, events.Flushed(), failed, DELIVERED)
    assert life.of(events.Report) == [events.Report("onStop failed", BOOM), events.Report("on_drained failed", BOOM)]
    assert life.state == Terminated(None, is_deregistered=True)
    life = Life(*RUN, STOP, RETURNED, events.Flushed(), LATE, DELIVERED)
    assert [report.message.partition(" has ")[0] for report in life.of(events.Report)] == ["on_drained"]
    assert life.state == Terminated(None, is_deregistered=True)


# -- the back-off of restarts --


def test_back_off_of_restarts_doubles_until_a_block_is_accepted() -> None:
    life, delays = Life(*RUN), list[float]()
    again = (*DRAINED, DELIVERED, events.RestartDelayOver(), ACCEPTED, events.CallReturned())
    for _ in range(7):
        life.take(events.RestartRequested("again"), *again)
    life.take(events.BlocksAccepted(1), events.RestartRequested("again"), *again)
    delays = [wait.delay_ms for wait in life.of(events.AwaitRestart)]
    for delay_ms, nominal_ms in zip(delays, (1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 1000), strict=True):
        assert nominal_ms / 2 <= delay_ms <= nominal_ms


def test_given_delay_does_not_count_for_the_back_off() -> None:
    assert Life(*RUN, RESTART).receiver.restarts == 0


def test_jitter_differs_between_receivers() -> None:
    def delay_ms(**changes: Any) -> float:
        life = Life()
        life.receiver = evolve(life.receiver, **changes)
        life.take(*RUN, events.RestartRequested("again"), *DRAINED, DELIVERED)
        (wait,) = life.of(events.AwaitRestart)
        return wait.delay_ms

    assert len({delay_ms(), delay_ms(stream_id=4), delay_ms(jitter_seed="another application")}) == 3
    assert delay_ms() == delay_ms()


# -- failures of threads --


@pytest.mark.parametrize("taken", [START, RUN], ids=["in onStart", "later"])
def test_error_of_a_thread_restarts(taken: tuple[Event, ...]) -> None:
    life = Life(*taken, events.ThreadFailed("reader", BOOM), events.CallReturned(), *DRAINED)
    assert life.of(events.Report) == [events.Report("Error on thread reader: ValueError: boom", BOOM)]
    assert not life.of(events.Deregister)[0].ended


def test_error_of_a_thread_that_a_stop_ended_is_not_reported() -> None:
    life = Life(*RUN, events.ThreadFailed("reader", ReceiverStoppedError("stopped")))
    assert (life.state, life.of(events.Report)) == (Receiving(), [])


# -- rate, pause, disk --


@pytest.mark.parametrize(
    ("numbers", "rate"),
    [((1, 2), 20.0), ((2, 1), 10.0), ((0, 0), 20.0)],
    ids=["newer", "outdated", "order kept by the caller"],
)
def test_outdated_desired_state_is_ignored(numbers: tuple[int, int], rate: float) -> None:
    first, second = numbers
    life = Life(*RUN, UpdateRateLimit(10.0, first, True), UpdateRateLimit(20.0, second))
    assert life.receiver.rate == rate
    assert life.receiver.is_paused_by_driver is (rate == 10.0)
    assert len(life.of(events.NotifyRate)) == (1 if rate == 10.0 else 2)


def test_rate_may_be_less_than_a_record_per_second() -> None:
    assert Life(*RUN, UpdateRateLimit(0.5, 1)).receiver.rate == 0.5


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_rate_that_is_no_rate_changes_nothing(rate: float | None) -> None:
    life = Life(*RUN, UpdateRateLimit(10.0, 1), UpdateRateLimit(rate, 2))
    assert (life.receiver.rate, life.effects) == (10.0, ())


def test_rate_is_bounded_and_notified_when_it_changes() -> None:
    life = Life(*RUN, initial_rate_per_s=50.0, max_rate_per_s=50.0)
    assert life.receiver.rate == 50.0
    life.take(UpdateRateLimit(20.0, 1))
    assert (life.receiver.rate, life.effects) == (20.0, (events.NotifyRate(),))
    life.take(UpdateRateLimit(20.0, 2))
    assert not life.effects
    life.take(UpdateRateLimit(1000.0, 3))
    assert (life.receiver.rate, life.effects) == (50.0, (events.NotifyRate(),))
    life.take(UpdateRateLimit(20.0, 4), UpdateRateLimit(None, 5))
    assert (life.receiver.rate, life.effects) == (50.0, (events.NotifyRate(),))


def test_rate_of_the_registration_is_notified_after_onStart() -> None:
    life = Life(events.StartRequested(), events.RegistrationAnswered(desired=UpdateRateLimit(25.0, 4)))
    assert life.receiver.rate == 25.0
    assert life.of(events.NotifyRate) == []
    life.take(events.CallReturned())
    assert life.effects == (events.NotifyRate(),)
    assert life.receiver.desired_number == 4


def test_rate_of_the_registration_is_in_force_though_a_stop_came_meanwhile() -> None:
    # What onStop and threads that still run may store.
    life = Life(events.StartRequested(), STOP, events.RegistrationAnswered(desired=UpdateRateLimit(25.0, 4)))
    assert life.receiver.rate == 25.0
    assert isinstance(life.state, Flushing)


def test_outdated_desired_state_of_a_registration_is_ignored() -> None:
    life = Life(events.StartRequested(), UpdateRateLimit(10.0, 5, True))
    life.take(events.RegistrationAnswered(desired=UpdateRateLimit(25.0, 4)), events.CallReturned())
    assert (life.receiver.rate, life.receiver.is_paused_by_driver) == (10.0, True)


def test_receiver_is_paused_while_any_block_waits_for_the_disk() -> None:
    life = Life(*RUN, events.DiskWait(LOST), events.DiskWait(LOST), events.DiskWait())
    assert life.receiver.is_paused
    assert life.of(events.Report) == [events.Report("the disk is full: the receiver pauses until there is room", LOST)]
    life.take(events.DiskWait())
    assert not life.receiver.is_paused
    assert "disk space available again" in [log.event for log in life.of(events.Log)]


@pytest.mark.parametrize(
    ("taken", "logs"),
    [
        (RUN, []),
        ((*START, events.CallReturned(BOOM)), ["warning: onStart failed, reason=ValueError: boom"]),
        # The error is a consequence of the stop.
        ((*START, STOP, events.CallReturned(BOOM)), ["debug: onStart ended by stop, reason=boom"]),
        ((*START, STOP, RETURNED), []),
        (
            (*RUN, events.ThreadFailed("reader", ReceiverStoppedError("over"))),
            ["debug: thread ended by stop, thread=reader, reason=over"],
        ),
        (
            (*RUN, events.BlocksAccepted(9), STOP, RETURNED, events.Flushed(3, 2), RETURNED),
            ["info: receiver stopped, reason=enough, stored=9, flushed=3, dropped=2"],
        ),
        (
            (*RUN, UpdateRateLimit(None, 1, True), UpdateRateLimit(None, 2, True), UpdateRateLimit(None, 3)),
            ["info: receiver paused, reason=driver", "info: receiver resumed, reason=driver"],
        ),
        (
            (*RUN, events.DiskWait(LOST), events.DiskWait()),
            [
                "info: receiver paused, reason=disk full",
                "info: receiver resumed, reason=disk full",
                "warning: disk space available again",
            ],
        ),
    ],
)
def test_what_nobody_reports_is_logged(taken: tuple[Event, ...], logs: list[str]) -> None:
    shown = [
        ", ".join([f"{log.level}: {log.event}", *(f"{key}={value}" for key, value in log.context.items())])
        for log in Life(*taken).of(events.Log)
    ]
    assert [log.partition(", advice=")[0] for log in shown] == logs


@pytest.mark.parametrize("resumes_first", [True, False])
def test_driver_and_full_disk_pause_independently(resumes_first: bool) -> None:
    life = Life(*RUN, events.DiskWait(LOST), UpdateRateLimit(0.0, 1, True))
    ends: list[Event] = [UpdateRateLimit(0.0, 2), events.DiskWait()]
    first, second = ends if resumes_first else reversed(ends)
    assert life.take(first).receiver.is_paused
    assert not life.take(second).receiver.is_paused


@pytest.mark.parametrize(
    "taken", [(), RUN, (*RUN, *(RESTART, *DRAINED, DELIVERED)), (*RUN, STOP)], ids=lambda taken: str(len(taken))
)
def test_error_is_reported_in_every_state(taken: tuple[Event, ...]) -> None:
    life = Life(*taken)
    before = life.receiver
    life.take(events.Report("odd record", BOOM))
    assert (life.receiver, life.effects) == (before, (events.Report("odd record", BOOM),))


@pytest.mark.parametrize(
    "event",
    [ACCEPTED, RETURNED, events.Flushed(), DELIVERED, events.RestartDelayOver()],
    ids=lambda event: type(event).__name__,
)
def test_end_of_an_activity_that_is_not_under_way_changes_nothing(event: Event) -> None:
    for taken in ((), RUN, (*RUN, STOP, *DRAINED, DELIVERED)):
        life = Life(*taken)
        before = life.receiver
        assert (life.take(event).receiver, life.effects) == (before, ())


def test_states_of_the_tables_are_all() -> None:
    assert {type(Life(*taken).state) for taken in [(), START, RUN, (*RUN, STOP, *DRAINED, DELIVERED)]} | {
        type(Life(*taken).state) for taken in IN_RESTART.values()
    } == {
        Created,
        Registering,
        Starting,
        Interrupted,
        Receiving,
        Stopping,
        Flushing,
        Draining,
        Deregistering,
        AwaitingRestart,
        Terminated,
    }
