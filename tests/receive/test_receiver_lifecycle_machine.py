"""The life cycle of a running receiver explored at random, with the receiver, the driver and the disk simulated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import evolve
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.helpers.examples import examples
from tests.helpers.receiver_transitions import receiver_transitions

from penstock.conf import Settings
from penstock.errors import ReceiverStuckError
from penstock.receive import running_receiver as events
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.rate_limiter import lowest
from penstock.receive.receiver_lifecycle import step
from penstock.receive.running_receiver import (
    Effect,
    Event,
    Intake,
    Interrupted,
    Receiving,
    Restart,
    Starting,
    Terminated,
    new_receiver,
)

SETTINGS = Settings.parse({})
TRANSITIONS = receiver_transitions()
POLICIES = st.builds(
    partial(evolve, SETTINGS),
    start_timeout_ms=st.sampled_from([0, 5000]),
    stop_timeout_ms=st.sampled_from([0, 2000]),
    max_rate_per_s=st.sampled_from([15.0, None]),
)
ACTIVITIES = (
    events.Register,
    events.Call,
    events.Flush,
    events.Deregister,
    events.AwaitRestart,
)
BOOM = ValueError("boom")
ERRORS = st.sampled_from([None, BOOM])


class RestartLifecycleMachine(RuleBasedStateMachine):
    """One launch. Rules are what a receiver, its owner, the driver, the disk and the clock may do at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.receiver = new_receiver(0, SETTINGS)
        self.now_ms = 0.0
        # Activities under way, oldest first, and the history of those that began.
        self.under_way: list[str] = []
        self.calls: list[str] = []
        self.desired: tuple[int, float | None] = (0, 0.0)
        self.driver_pauses = False
        self.disk_waits = 0
        self.stop_requested = False
        self.registered = False
        self.is_configured = self.is_abandoned = self.is_stuck = self.last_flush_is_final = False
        self.reports: list[str] = []
        self.restart_errors = self.returned_stops = 0

    def take(self, event: Event) -> None:
        """Give an event to the record and carry out the effects."""
        before = type(self.receiver.state).__name__
        self.receiver, effects = step(self.receiver, event, self.now_ms)
        after = type(self.receiver.state).__name__
        assert before == after or (before, after) in TRANSITIONS
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case events.OnThread():
                for inner in effect.effects:
                    self.carry_out(inner)
            case events.Report():
                self.reports.append(effect.message)
            case _ if isinstance(effect, ACTIVITIES):
                self.begin(effect)
            case _:
                pass

    def begin(self, effect: Effect) -> None:
        # A wait that a stop cut short ends soon; an abandoned onStart may never end.
        over = ("AwaitRestart",) * self.stop_requested + ("onStart",) * self.is_abandoned
        assert [other for other in self.under_way if other not in over] == [], "two activities at a time"
        match effect:
            case events.Call("onStart"):
                assert not self.stop_requested
                assert self.calls[-1:] == ["Register"]
            case events.Call("onStop"):
                assert self.calls[-1:] == ["onStart"]
            case events.Call("on_drained"):
                assert "onStop" in self.calls[-3:]
                assert self.calls[-1] == "Flush"
            case events.Deregister():
                assert "Flush" in self.calls[-2:]
                assert effect.ended == (self.stop_requested or self.is_stuck)
                if effect.ended:
                    assert self.last_flush_is_final
            case events.Flush():
                self.last_flush_is_final = effect.is_final
            case events.AwaitRestart():
                assert not self.stop_requested
        name = getattr(effect, "method", type(effect).__name__)
        self.calls.append(name)
        self.under_way.append(name)

    def end(self, activity: str, event: Event) -> None:
        """End the oldest activity of a kind."""
        self.under_way.remove(activity)
        self.take(event)

    def runs(self, activity: str) -> bool:
        return activity in self.under_way

    # -- the owner --

    @initialize(policy=POLICIES)
    def configure(self, policy: Settings) -> None:
        self.receiver = new_receiver(0, policy)
        self.is_configured = True

    @rule()
    def start(self) -> None:
        self.take(events.StartRequested())

    @rule()
    @precondition(lambda self: not self.calls)
    def start_and_receive(self) -> None:
        """A complete start, which random steps alone rarely reach."""
        self.start()
        if self.runs("Register"):
            self.answer_registration("", None)
        if self.runs("onStart"):
            self.return_from_on_start(None)

    @rule(error=ERRORS, chance=st.integers(0, 4))
    def stop(self, error: BaseException | None, chance: int) -> None:
        if not chance:
            self.stop_requested = True
            self.take(events.StopRequested("enough", error))

    @rule(chance=st.integers(0, 1))
    @precondition(lambda self: isinstance(getattr(self.receiver.state, "then", None), Restart))
    def stop_during_a_restart(self, chance: int) -> None:
        """Random steps alone rarely do it."""
        self.stop(None, chance)

    @rule(
        number=st.integers(0, 6),
        rate=st.sampled_from([None, 0.0, 10.0, 20.0]),
        paused=st.booleans(),
    )
    def desire(self, number: int, rate: float | None, paused: bool) -> None:
        self.note_desired(number, rate, paused)
        self.take(UpdateRateLimit(rate, number, paused=paused))

    def note_desired(self, number: int, rate: float | None, paused: bool) -> None:
        if number >= self.desired[0]:
            self.desired = (number, self.desired[1] if rate == 0.0 else rate)
            self.driver_pauses = paused

    # -- the driver --

    @rule(refusal=st.sampled_from(["", "", "", "replaced"]), number=st.sampled_from([None, 1, 4]))
    @precondition(lambda self: self.runs("Register"))
    def answer_registration(self, refusal: str, number: int | None) -> None:
        desired = None if number is None else UpdateRateLimit(20.0, number)
        if refusal:
            self.stop_requested = True
            desired = None
        elif desired is not None:
            self.note_desired(desired.number, desired.rate, desired.paused)
        self.registered = self.registered or not refusal
        self.end("Register", events.RegistrationAnswered(OSError(refusal) if refusal else None, desired))

    @rule(delivered=st.booleans())
    @precondition(lambda self: self.runs("Deregister"))
    def deregister(self, delivered: bool) -> None:
        self.end("Deregister", events.Deregistered(delivered))

    # -- the receiver --

    @rule(error=ERRORS)
    @precondition(lambda self: self.runs("onStart"))
    def return_from_on_start(self, error: BaseException | None) -> None:
        if error is not None and isinstance(self.receiver.state, Starting):
            self.stop_requested = True
        self.end("onStart", events.CallReturned(error))

    @rule(error=ERRORS)
    @precondition(lambda self: self.runs("onStop"))
    def return_from_on_stop(self, error: BaseException | None) -> None:
        self.returned_stops += 1
        self.end("onStop", events.CallReturned(error))

    @rule()
    @precondition(lambda self: self.runs("onStop"))
    def exceed_on_stop(self) -> None:
        self.is_stuck = True
        self.end("onStop", events.CallReturned(in_time=False))

    @rule(error=ERRORS, in_time=st.booleans())
    @precondition(lambda self: self.runs("on_drained"))
    def return_from_on_drained(self, error: BaseException | None, in_time: bool) -> None:
        self.end("on_drained", events.CallReturned(error if in_time else None, in_time))

    @rule(error=ERRORS, delay_ms=st.sampled_from([None, 0.0, 100.0]))
    def restart(self, error: BaseException | None, delay_ms: float | None) -> None:
        is_new = isinstance(self.receiver.state, Starting | Receiving)
        self.restart_errors += is_new and error is not None
        self.take(events.RestartRequested("again", error, delay_ms))

    @rule()
    def fail_thread(self) -> None:
        self.restart_errors += isinstance(self.receiver.state, Starting | Receiving)
        self.take(events.ThreadFailed("again", BOOM))

    @rule(dropped=st.sampled_from([0, 0, 3]))
    @precondition(lambda self: self.runs("Flush"))
    def flush(self, dropped: int) -> None:
        self.end("Flush", events.Flushed(1, dropped))

    @rule()
    @precondition(lambda self: self.runs("AwaitRestart"))
    def end_delay(self) -> None:
        self.end("AwaitRestart", events.RestartDelayOver())

    @rule(records=st.integers(1, 3))
    @precondition(lambda self: self.receiver.intake is not Intake.CLOSED and self.receiver.is_registered)
    def accept(self, records: int) -> None:
        self.take(events.BlocksAccepted(records))
        assert self.receiver.restarts == 0

    # -- disk and clock --

    @rule()
    def fill_disk(self) -> None:
        self.disk_waits += 1
        self.take(events.DiskWait(OSError("no space")))

    @rule()
    @precondition(lambda self: self.disk_waits)
    def free_disk(self) -> None:
        self.disk_waits -= 1
        self.take(events.DiskWait())

    @rule(ms=st.sampled_from([100, 1000, 3000]))
    def tick(self, ms: int) -> None:
        self.now_ms += ms
        was_in_start = isinstance(self.receiver.state, Starting | Interrupted)
        before, self.is_abandoned = self.is_abandoned, self.is_abandoned or was_in_start
        self.take(events.Tick())
        if was_in_start and isinstance(self.receiver.state, Starting | Interrupted):
            self.is_abandoned = before
        elif was_in_start:
            self.stop_requested = True

    @rule(interrupts=st.booleans())
    @precondition(lambda self: isinstance(self.receiver.state, Starting))
    def hang_in_on_start(self, interrupts: bool) -> None:
        """An ``onStart`` that exceeds its timeouts, which random steps alone rarely reach."""
        if interrupts:
            self.restart(BOOM, None)
            self.stop(None, 0)
        self.tick(10_000)

    # -- what always holds --

    @invariant()
    def something_always_continues(self) -> None:
        waits = not self.calls or isinstance(self.receiver.state, Receiving | Terminated)
        over = ("onStart",) if self.is_abandoned else ()
        assert waits or [activity for activity in self.under_way if activity not in over]

    @invariant()
    def rate_is_that_of_the_newest_desired_state(self) -> None:
        policy, rate = self.receiver.settings, self.desired[1]
        assert self.receiver.rate == lowest(policy.initial_rate_per_s if rate == 0.0 else rate, policy.max_rate_per_s)

    @invariant()
    def stores_are_held_while_there_is_a_reason(self) -> None:
        assert self.receiver.is_paused == (self.driver_pauses or self.disk_waits > 0)

    @invariant()
    def waits_end_with_a_stop(self) -> None:
        assert self.receiver.is_ending or not self.stop_requested

    @invariant()
    def end_is_reported(self) -> None:
        if isinstance(self.receiver.state, Terminated):
            assert not self.receiver.watches_threads
            assert self.calls.count("Deregister") >= self.receiver.is_registered
            assert self.registered == self.receiver.is_registered

    def teardown(self) -> None:
        """A stop ends in every state, once everything that is under way has ended, and no report is lost."""
        if not self.is_configured:
            return
        self.stop_requested = True
        self.take(events.StopRequested("enough"))
        ends: dict[str, Callable[[], object]] = {
            "Register": partial(self.answer_registration, "", None),
            "onStart": partial(self.return_from_on_start, None),
            "onStop": partial(self.return_from_on_stop, None),
            "Flush": partial(self.flush, 0),
            "on_drained": partial(self.return_from_on_drained, None, True),
            "Deregister": partial(self.deregister, True),
            "AwaitRestart": self.end_delay,
        }
        for _ in range(20):
            if self.under_way:
                ends[self.under_way[0]]()
        assert isinstance(self.receiver.state, Terminated)
        assert self.under_way == []
        assert self.last_flush_is_final
        assert self.calls.count("on_drained") == self.returned_stops
        if self.is_stuck:
            assert self.receiver.state.error is not None
        assert len([report for report in self.reports if "again" in report]) == self.restart_errors
        if self.is_abandoned:
            assert isinstance(self.receiver.state.error, ReceiverStuckError)


TestRestartLifecycle = RestartLifecycleMachine.TestCase
TestRestartLifecycle.settings = settings(
    max_examples=examples(100),
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
