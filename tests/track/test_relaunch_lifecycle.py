"""The receiver life cycle as tables: a record, events, the record and the effects that follow.

A long file, because the tables of one function belong together.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from attrs import evolve

from penstock.conf import Settings
from penstock.listen.events import ReceiverError, ReceiverStarted, ReceiverStopped
from penstock.receive.messages import (
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    ReportError,
    StopReceiver,
    UpdateRateLimit,
)
from penstock.receive.relaunch_policy import RelaunchPolicy
from penstock.spark.cluster import TaskLocation
from penstock.track.receiver_tracking_info import (
    Active,
    Answer,
    BackingOff,
    CancelJob,
    Connect,
    Effect,
    Ending,
    ExecutorLost,
    FailApplication,
    GivenUp,
    JobEnded,
    Launch,
    LaunchDue,
    LaunchFailed,
    LifecycleEvent,
    Log,
    Move,
    Moving,
    Overdue,
    Pause,
    Post,
    ProblemFound,
    RateLimit,
    ReceiverTrackingInfo,
    Refused,
    Registration,
    Restarting,
    Scheduled,
    Send,
    Stop,
    Stopped,
    Stopping,
    Tick,
    Undelivered,
    Waiting,
)
from penstock.track.relaunch_lifecycle import step
from penstock.wire.json_codec import Reply

E = TypeVar("E")
A, B = TaskLocation("host-a", "1"), TaskLocation("host-b", "2")
DEFAULTS = evolve(
    Settings.parse({}),
    max_receiver_failures=2,
    receiver_failure_window_ms=60_000,
    on_receiver_failure="restart",
    launch_timeout_ms=0,
)
REGISTER, DIED = RegisterReceiver(0, 1, "Silent", 4000), JobEnded(1, "worker exited")


class Lifecycle:
    """A record that events are given to; the effects of the last event."""

    def __init__(self, **policy: Any) -> None:
        self.record = ReceiverTrackingInfo(0, "Silent-0", RelaunchPolicy(evolve(DEFAULTS, **policy), 1000))
        self.now_ms = 0.0
        self.effects = tuple[Effect, ...]()

    def take(self, *events: LifecycleEvent) -> Lifecycle:
        for event in events:
            self.record, self.effects = step(self.record, event, self.now_ms, 1_000_000 + int(self.now_ms))
        return self

    def after(self, duration_ms: float) -> Lifecycle:
        """Let time pass."""
        self.now_ms += duration_ms
        return self

    def of(self, kind: type[E]) -> list[E]:
        """The last event's effects of a class."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def answer(self) -> Any:
        (answer,) = self.of(Answer)
        return answer.message

    @property
    def delay_ms(self) -> float:
        """The back-off that has just begun."""
        assert isinstance(self.record.state, BackingOff)
        return self.record.state.until_ms - self.now_ms

    @property
    def state(self) -> str:
        return type(self.record.state).__name__

    @property
    def drains(self) -> list[int]:
        """The epochs of draining launches."""
        return sorted(self.record.draining)

    @property
    def posted(self) -> list[str]:
        return [type(effect.event).__name__ for effect in self.of(Post)]

    @property
    def sent(self) -> list[object]:
        return [effect.message for effect in self.of(Send)]


def launched(**policy: Any) -> Lifecycle:
    return Lifecycle(**policy).take(LaunchDue((A,)))


def active(**policy: Any) -> Lifecycle:
    return launched(**policy).take(Registration(REGISTER, A))


def deregister(message: str = "done", error: str = "", *, ended: bool = False, epoch: int = 1) -> DeregisterReceiver:
    return DeregisterReceiver(0, epoch, message, error, ended=ended)


def in_state(name: str) -> Lifecycle:
    """A life cycle that is in a state."""
    made: dict[str, Callable[[], Lifecycle]] = {
        "waiting": Lifecycle,
        "scheduled": launched,
        "overdue": lambda: launched(launch_timeout_ms=1).after(1).take(Tick()),
        "refused": lambda: launched().take(Registration(REGISTER, B)),
        "active": active,
        "moving": lambda: active().take(Move(60_000)),
        "restarting": lambda: active().take(deregister()),
        "stopping": lambda: active().take(Stop()),
        "ending": lambda: launched().take(Stop()),
        "backing off": lambda: active().take(DIED),
        "given up": lambda: active(max_receiver_failures=0, on_receiver_failure="stop-stream").take(DIED),
        "stopped": lambda: Lifecycle().take(Stop()),
    }
    return made[name]()


STATES = {
    "waiting": Waiting,
    "scheduled": Scheduled,
    "overdue": Overdue,
    "refused": Refused,
    "active": Active,
    "moving": Moving,
    "restarting": Restarting,
    "stopping": Stopping,
    "ending": Ending,
    "backing off": BackingOff,
    "given up": GivenUp,
    "stopped": Stopped,
}


@pytest.mark.parametrize("name", STATES)
def test_each_state_can_be_reached(name: str) -> None:
    assert type(in_state(name).record.state) is STATES[name]


# -- launches --


@pytest.mark.parametrize("name", STATES)
def test_launch_starts_a_job_only_while_there_is_none(name: str) -> None:
    lifecycle = in_state(name)
    before = lifecycle.record
    lifecycle.take(LaunchDue((B,), preferred="host-b"))
    if name in ("waiting", "backing off"):
        assert lifecycle.record.state == Scheduled(Launch(before.epoch + 1, lifecycle.now_ms), (B,))
        assert (lifecycle.record.epoch, lifecycle.record.preferred) == (before.epoch + 1, "host-b")
    else:
        assert (lifecycle.record, lifecycle.effects) == (before, ())


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("scheduled", BackingOff),
        ("overdue", BackingOff),
        ("refused", BackingOff),
        ("active", BackingOff),
        ("moving", BackingOff),
        ("restarting", BackingOff),
        ("stopping", Stopped),
        ("ending", Stopped),
        ("given up", GivenUp),
    ],
)
def test_end_of_the_job_leads_to_a_relaunch_unless_stopping_or_given_up(name: str, after: type) -> None:
    lifecycle = in_state(name).take(DIED)
    assert lifecycle.state == after.__name__
    assert not lifecycle.record.info.active


@pytest.mark.parametrize("name", STATES)
def test_end_of_an_older_job_changes_nothing(name: str) -> None:
    lifecycle = in_state(name)
    before = lifecycle.record
    lifecycle.take(JobEnded(before.epoch + 7, "lost"), JobEnded(-1))
    assert (lifecycle.record, lifecycle.effects) == (before, ())


@pytest.mark.parametrize(
    ("name", "event", "posted"),
    [
        ("scheduled", DIED, ["ReceiverError"]),
        ("scheduled", JobEnded(1), ["ReceiverError"]),
        # The failure was reported when the launch timeout passed; a refusal is none.
        ("overdue", DIED, []),
        ("refused", DIED, []),
        ("active", DIED, ["ReceiverError", "ReceiverStopped"]),
        # Spark retries a failed task; the retry exits at once, and the job succeeds.
        ("active", JobEnded(1), ["ReceiverError", "ReceiverStopped"]),
        ("restarting", DIED, ["ReceiverError"]),
        ("restarting", JobEnded(1), []),
        ("stopping", DIED, ["ReceiverStopped"]),
        ("ending", DIED, []),
    ],
)
def test_job_that_ends_without_deregistration_is_reported(name: str, event: JobEnded, posted: list[str]) -> None:
    assert in_state(name).take(event).posted == posted


def test_failed_launch_is_reported_and_retried() -> None:
    lifecycle = Lifecycle().take(LaunchFailed("ConnectionError: no catalogue", "Traceback"))
    assert lifecycle.posted == ["ReceiverError"]
    assert lifecycle.record.info.lastErrorMessage == "the receiver's task failed: ConnectionError: no catalogue"
    assert lifecycle.state == "BackingOff"
    assert type(lifecycle.take(LaunchDue()).record.state) is Scheduled


def test_back_off_doubles_up_to_the_longest_delay_and_is_jittered() -> None:
    lifecycle = Lifecycle(max_receiver_failures=100).after(100_000)
    for epoch, nominal in enumerate((1000, 2000, 4000, 8000, 16_000, 30_000, 30_000), start=1):
        lifecycle.take(LaunchDue(), JobEnded(epoch, "again"))
        assert nominal / 2 <= lifecycle.delay_ms <= nominal


def test_back_off_starts_again_after_a_healthy_launch() -> None:
    lifecycle = Lifecycle(max_receiver_failures=100)
    for epoch in (1, 2, 3):
        lifecycle.take(LaunchDue(), JobEnded(epoch, "again"))
    lifecycle.take(LaunchDue())
    lifecycle.now_ms += 10_001
    assert lifecycle.take(JobEnded(4, "after a long life")).delay_ms <= 1000


def test_candidates_are_remembered_until_the_receiver_registers() -> None:
    lifecycle = launched().take(DIED)
    assert list(lifecycle.record.candidates) == [A]
    lifecycle.take(LaunchDue(lifecycle.record.candidates), Registration(RegisterReceiver(0, 2, "Silent", 1), A))
    assert not lifecycle.record.candidates
    assert not lifecycle.take(JobEnded(2, "lost")).record.candidates


# -- registration --


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("waiting", "launch 1 of stream 0 was replaced, or has ended"),
        ("scheduled", ""),
        # Its job could not be cancelled, and it has found a slot after all.
        ("overdue", ""),
        ("refused", "the receiver was scheduled to another executor"),
        ("active", ""),
        ("moving", ""),
        ("restarting", ""),
        ("stopping", "the application is stopping"),
        ("ending", "the application is stopping"),
        ("backing off", "launch 1 of stream 0 was replaced, or has ended"),
        ("given up", "launch 1 of stream 0 was replaced, or has ended"),
    ],
)
def test_registration_is_accepted_or_refused_by_state(name: str, refused: str) -> None:
    answer = in_state(name).take(Registration(REGISTER, A)).answer
    assert (answer.accepted, answer.reason) == (not refused, refused)


@pytest.mark.parametrize("epoch", [0, 2])
def test_registration_of_another_launch_is_refused(epoch: int) -> None:
    lifecycle = launched().take(Registration(RegisterReceiver(0, epoch, "Silent", 1), A))
    assert lifecycle.answer == Registered(
        accepted=False, reason=f"launch {epoch} of stream 0 was replaced, or has ended"
    )
    assert lifecycle.of(Connect) == []


def test_registration_makes_the_receiver_active() -> None:
    lifecycle = launched().take(Registration(REGISTER, A))
    info = lifecycle.record.info
    assert (info.active, info.location, info.executorId) == (True, "host-a", "1")
    assert lifecycle.of(Post) == [Post(ReceiverStarted(info))]
    assert (lifecycle.of(Connect), lifecycle.record.block_location.host) == ([Connect(REGISTER)], "host-a")


def test_repeated_registration_is_no_second_start() -> None:
    lifecycle = active().take(Registration(REGISTER, A))
    assert (lifecycle.answer.accepted, lifecycle.posted) == (True, [])


def test_registration_on_a_wrong_executor_is_refused_twice_then_accepted() -> None:
    lifecycle = launched()
    for epoch in (1, 2):
        for _ in range(3):
            lifecycle.take(Registration(RegisterReceiver(0, epoch, "Silent", 1), B))
            assert lifecycle.answer == Registered(False, "the receiver was scheduled to another executor")
        lifecycle.take(JobEnded(epoch, "refused"))
        assert lifecycle.posted == []
        lifecycle.take(LaunchDue((A,)))
    assert lifecycle.take(Registration(RegisterReceiver(0, 3, "Silent", 1), B)).answer.accepted
    assert (lifecycle.record.refusals, lifecycle.record.failures_ms) == (0, ())


@pytest.mark.parametrize(
    ("candidates", "location", "accepted"),
    [
        ((), B, True),
        ((A,), None, True),
        ((A, B), B, True),
        ((A,), TaskLocation("host-a", "9"), False),
        ((TaskLocation("host-b", ""), A), B, True),
        ((TaskLocation("host-b", ""),), A, True),
    ],
    ids=["anywhere", "unknown executor", "candidate", "other executor", "preferred host", "no executor there"],
)
def test_executor_is_accepted(
    candidates: tuple[TaskLocation, ...], location: TaskLocation | None, accepted: bool
) -> None:
    lifecycle = Lifecycle().take(LaunchDue(candidates), Registration(REGISTER, location))
    assert lifecycle.answer.accepted is accepted


# -- deregistration and errors --


def test_deregistration_with_an_error_is_reported_and_counted_once() -> None:
    lifecycle = active().take(deregister("lost", "Traceback: lost"))
    assert lifecycle.posted == ["ReceiverError", "ReceiverStopped"]
    lifecycle.take(DIED)
    assert (lifecycle.posted, len(lifecycle.record.failures_ms)) == ([], 1)


def test_error_that_was_reported_before_ends_the_receiver_without_a_second_report() -> None:
    lifecycle = active().take(ReportError(0, 1, "lost", "Traceback: lost"))
    assert (lifecycle.posted, lifecycle.answer) == (["ReceiverError"], Reply())
    lifecycle.take(deregister("Restarting: lost", "Traceback: lost"))
    assert (lifecycle.posted, len(lifecycle.record.failures_ms)) == (["ReceiverStopped"], 1)
    lifecycle.take(Registration(REGISTER, A), deregister("another one", "Traceback: another"))
    assert (lifecycle.posted, len(lifecycle.record.failures_ms)) == (["ReceiverError", "ReceiverStopped"], 2)


def test_death_is_reported_though_the_receiver_had_survived_an_error() -> None:
    lifecycle = active().take(ReportError(0, 1, "disk full", "Traceback: disk"), DIED)
    assert lifecycle.posted == ["ReceiverError", "ReceiverStopped"]


def test_second_deregistration_is_refused() -> None:
    lifecycle = active().take(deregister(), deregister())
    assert lifecycle.answer == Reply(accepted=False, reason="launch 1 of stream 0 is not active")
    assert lifecycle.posted == []


def test_receiver_may_register_again_after_a_restart() -> None:
    lifecycle = active().take(deregister("Restarting"), Registration(REGISTER, A))
    assert (lifecycle.state, lifecycle.posted) == ("Active", ["ReceiverStarted"])


def test_stopped_receiver_whose_task_hangs_is_relaunched() -> None:
    # Its delay has passed, and it does not register.
    lifecycle = active().take(evolve(deregister("Restarting"), restart_delay_ms=100_000))
    assert lifecycle.after(159_999).take(Tick()).of(CancelJob) == []
    assert lifecycle.after(1).take(Tick()).of(CancelJob) == [CancelJob(1)]
    assert "the task of receiver Silent-0 hangs" in lifecycle.record.last_end.message
    # Once, and the end of the job counts as one failure.
    assert lifecycle.after(1_000_000).take(Tick()).effects == ()
    assert lifecycle.take(DIED).state == "BackingOff"
    assert len(lifecycle.record.failures_ms) == 1


def test_refused_receiver_whose_task_hangs_is_relaunched() -> None:
    lifecycle = launched().take(Registration(REGISTER, B)).after(59_999).take(Tick())
    assert (lifecycle.state, lifecycle.of(CancelJob)) == ("Refused", [])
    assert lifecycle.after(1).take(Tick()).of(CancelJob) == [CancelJob(1)]
    assert lifecycle.take(DIED).state == "BackingOff"


def test_receiver_whose_ended_task_hangs_is_relaunched() -> None:
    lifecycle = active().take(deregister("failed", "Traceback", ended=True)).after(60_000).take(Tick())
    assert lifecycle.of(CancelJob) == [CancelJob(1)]


def test_receiver_that_is_given_up_names_the_error_that_it_reported() -> None:
    lifecycle = active(max_receiver_failures=0, on_receiver_failure="stop-stream")
    lifecycle.take(ReportError(0, 1, "Error connecting - OSError: refused", "Traceback: refused"))
    lifecycle.take(deregister("Restarting receiver with delay 1092 ms: Error connecting", "Traceback: refused"))
    assert lifecycle.record.last_end.message.endswith("the last one: Error connecting - OSError: refused")


def test_last_log_lines_are_in_the_error_event_and_stay_until_the_next_ones() -> None:
    lifecycle = active().take(ReportError(0, 1, "lost", "Traceback: lost", ["one", "two"]))
    error = next(effect.event for effect in lifecycle.of(Post) if isinstance(effect.event, ReceiverError))
    assert error.receiverInfo.last_log_lines == ("one", "two")
    lifecycle.take(DIED)
    assert lifecycle.record.info.lastErrorMessage.endswith("worker exited")
    assert lifecycle.record.info.last_log_lines == ("one", "two")


def test_number_of_log_lines_is_bounded() -> None:
    lifecycle = active().take(DeregisterReceiver(0, 1, "failed", "Traceback", log_lines=[str(n) for n in range(1000)]))
    assert len(lifecycle.record.last_log_lines) == 20


def test_errors_are_logged_with_the_executor_whose_log_has_the_receivers_lines() -> None:
    (logged,) = active().take(ReportError(0, 1, "lost", "Traceback")).of(Log)
    assert (logged.context["host"], logged.context["executor_id"]) == ("host-a", "1")


SECOND = (Registration(RegisterReceiver(0, 2, "Silent", 1), B), JobEnded(2), LaunchDue((A,)))
OFTEN = "more than 0 failures within 60 s (spark.penstock.receiver.maxRestarts); the last one: "


@pytest.mark.parametrize(
    ("lifecycle", "event", "logs"),
    [
        (Lifecycle(), LaunchDue(), ["info: receiver launched"]),
        (
            Lifecycle(),
            LaunchDue((A, B)),
            ["info: receiver launched, preferred=['executor_host-a_1', 'executor_host-b_2']"],
        ),
        (launched(), Registration(REGISTER, A), ["info: receiver registered, host=host-a, executor_id=1"]),
        (
            launched(),
            Registration(REGISTER, B),
            ["warning: receiver refused, reason=it runs on another executor than scheduled"],
        ),
        (
            launched().take(Registration(REGISTER, B), DIED, LaunchDue((A,)), *SECOND),
            Registration(RegisterReceiver(0, 3, "Silent", 1), B),
            [
                "warning: receiver accepted on another executor than scheduled, refusals=2",
                "info: receiver registered, host=host-b, executor_id=2",
            ],
        ),
        (
            active(),
            ReportError(0, 1, "lost", "Traceback\nOSError: reset\n"),
            ["warning: receiver error, message=lost, reason=OSError: reset, host=host-a, executor_id=1"],
        ),
        (
            active(),
            ReportError(0, 1, "lost", ""),
            ["warning: receiver error, message=lost, reason=, host=host-a, executor_id=1"],
        ),
        (
            active(),
            DeregisterReceiver(0, 1, "done", "", flushed=3, dropped=2),
            ["info: receiver deregistered, reason=done, flushed=3, dropped=2"],
        ),
        (active(), Move(), ["warning: receiver moves to another executor, host=host-a"]),
        (
            active().take(Move(60_000), deregister()),
            deregister(ended=True),
            [
                "info: receiver drained, blocks still served, host=host-a",
                "warning: receiver ended, relaunch scheduled, reason=done, host=host-a, executor_id=1",
            ],
        ),
        (
            launched(launch_timeout_ms=5000).after(5000),
            Tick(),
            [
                "error: receiver not registered in time, job cancelled, reason=receiver Silent-0 has not registered "
                "within 5 s"
            ],
        ),
        (
            active().take(deregister()).after(60_000),
            Tick(),
            [
                "error: stopped receiver's task hangs, job cancelled, reason=the task of receiver Silent-0 hangs: it "
                "has neither registered again nor ended within 60 s"
            ],
        ),
        (
            active(),
            ExecutorLost(),
            ["warning: executor lost, receiver job cancelled, reason=the executor 1 on host-a is lost"],
        ),
        (
            active(max_receiver_failures=0),
            deregister("lost", "Traceback"),
            [
                "info: receiver deregistered, reason=lost, flushed=0, dropped=0",
                f"error: receiver unhealthy, reason={OFTEN}lost",
            ],
        ),
        (
            active(max_receiver_failures=0)
            .take(deregister("lost", "Traceback"), Registration(REGISTER, A))
            .after(60_000),
            Tick(),
            ["warning: receiver healthy again"],
        ),
        (
            active(max_receiver_failures=0, on_receiver_failure="stop-stream"),
            deregister("lost", "Traceback"),
            [
                "info: receiver deregistered, reason=lost, flushed=0, dropped=0",
                f"error: receiver given up, reason={OFTEN}lost",
            ],
        ),
    ],
)
def test_what_happens_to_a_receiver_is_logged(lifecycle: Lifecycle, event: LifecycleEvent, logs: list[str]) -> None:
    shown = []
    for log in lifecycle.take(event).of(Log):
        assert log.context["epoch"] == lifecycle.record.epoch
        fields = [f"{key}={value}" for key, value in log.context.items() if key not in ("epoch", "delay_ms")]
        shown.append(", ".join([f"{log.level}: {log.event}", *fields]))
    assert [log.partition(" of its launch")[0] for log in shown] == logs


@pytest.mark.parametrize("event", [deregister(epoch=3), ReportError(0, 3, "late", "")])
def test_messages_of_another_launch_are_refused(event: LifecycleEvent) -> None:
    lifecycle = active()
    before = lifecycle.record
    assert lifecycle.take(event).answer == Reply(
        accepted=False, reason="launch 3 of stream 0 was replaced, or has ended"
    )
    assert lifecycle.record == before


def test_missed_blocks_are_counted_and_reported() -> None:
    lifecycle = active().take(ProblemFound("2 blocks are lost", 2, 20), ProblemFound("1 block is lost", 1, 5))
    info = lifecycle.record.info
    assert (info.lost_blocks, info.lost_records, info.lastErrorMessage) == (3, 25, "1 block is lost")
    assert lifecycle.posted == ["ReceiverError"]


# -- the failure budget --


def fail(lifecycle: Lifecycle, now_ms: float) -> ReceiverTrackingInfo:
    """A launch that registers and dies at a time."""
    lifecycle.now_ms = now_ms
    lifecycle.take(LaunchDue(), JobEnded(lifecycle.record.epoch + 1, "died"))
    return lifecycle.record


def test_failures_within_the_budget_are_tolerated_and_the_next_is_too_many() -> None:
    lifecycle = Lifecycle(max_receiver_failures=3, receiver_failure_window_ms=1000)
    assert [fail(lifecycle, now).info.unhealthy for now in (0, 10, 20, 30, 40)] == [False, False, False, True, True]


def test_failure_counts_for_the_length_of_the_window() -> None:
    lifecycle = Lifecycle(max_receiver_failures=1, receiver_failure_window_ms=1000)
    assert [fail(lifecycle, now).info.unhealthy for now in (0, 1000, 1999)] == [False, False, True]
    lifecycle.now_ms = 1999.9
    assert lifecycle.take(Tick()).record.info.unhealthy
    lifecycle.now_ms = 2000
    assert not lifecycle.take(Tick()).record.info.unhealthy


@pytest.mark.parametrize("seed", range(5))
def test_receiver_is_given_up_exactly_when_the_budget_is_spent(seed: int) -> None:
    rng = random.Random(seed)
    most, window_ms = rng.randint(0, 5), rng.randint(1, 500)
    lifecycle, failed_ms, now_ms = (
        Lifecycle(max_receiver_failures=most, receiver_failure_window_ms=window_ms, on_receiver_failure="stop-stream"),
        list[int](),
        0,
    )
    while not lifecycle.record.is_given_up and len(failed_ms) < 300:
        now_ms += rng.randint(0, 200)
        failed_ms.append(now_ms)
        spent = sum(now_ms - at_ms < window_ms for at_ms in failed_ms) > most
        assert fail(lifecycle, now_ms).info.given_up == spent


@pytest.mark.parametrize("policy", ["stop-stream", "fail-application"])
def test_receiver_that_fails_too_often_is_given_up_by_policy(policy: str) -> None:
    lifecycle = active(max_receiver_failures=0, on_receiver_failure=policy).take(DIED)
    assert lifecycle.posted == ["ReceiverError", "ReceiverError", "ReceiverStopped"]
    assert lifecycle.record.state == GivenUp()
    assert len(lifecycle.of(FailApplication)) == (policy == "fail-application")


def test_receiver_that_restarts_itself_too_often_is_sent_a_stop() -> None:
    lifecycle = active(max_receiver_failures=0, on_receiver_failure="stop-stream").take(deregister("lost", "Traceback"))
    assert lifecycle.of(Send) == [Send(1, StopReceiver("given up"), urgent=True)]
    # Once.
    assert lifecycle.take(deregister("lost", "Traceback")).sent == []
    answer = lifecycle.take(Registration(REGISTER, A)).answer
    assert answer == Registered(accepted=False, reason="the receiver is given up: it failed too often")
    assert lifecycle.take(DIED).record.state == GivenUp()


def test_receiver_that_is_given_up_at_its_end_still_serves_its_blocks() -> None:
    lifecycle = active(max_receiver_failures=0, on_receiver_failure="stop-stream").take(
        Move(60_000), deregister("lost", "Traceback", ended=True)
    )
    assert lifecycle.record.state == GivenUp()
    assert lifecycle.take(Tick(frozenset({1}))).sent == []
    assert lifecycle.take(Tick()).sent == [ReleaseReceiver()]


def test_launch_that_misses_its_timeout_is_cancelled_and_counted_once() -> None:
    lifecycle = launched(launch_timeout_ms=5000)
    lifecycle.now_ms = 4999
    assert lifecycle.take(Tick()).effects == ()
    lifecycle.now_ms = 5000
    assert lifecycle.take(Tick()).of(CancelJob) == [CancelJob(1)]
    assert lifecycle.posted == ["ReceiverError"]
    lifecycle.now_ms = 50_000
    assert lifecycle.take(Tick()).effects == ()
    lifecycle.take(JobEnded(1, "cancelled"))
    assert (lifecycle.posted, len(lifecycle.record.failures_ms)) == ([], 1)


def test_launch_that_is_given_up_while_it_waits_is_cancelled_and_refused() -> None:
    lifecycle = launched(launch_timeout_ms=5000, max_receiver_failures=0, on_receiver_failure="stop-stream")
    lifecycle.now_ms = 5000
    assert lifecycle.take(Tick()).of(CancelJob) == [CancelJob(1)]
    assert not lifecycle.take(Registration(REGISTER, A)).answer.accepted
    assert lifecycle.take(JobEnded(1, "cancelled")).record.state == GivenUp()
    assert lifecycle.take(LaunchDue()).effects == ()


# -- moves and draining launches --


def test_move_keeps_the_launch_serving_while_the_receiver_starts_elsewhere() -> None:
    lifecycle = active().take(Move(60_000))
    assert lifecycle.sent == [StopReceiver("moves to another executor", 60_000)]
    lifecycle.take(deregister("moves to another executor", ended=True))
    assert lifecycle.state == "BackingOff"
    assert lifecycle.drains == [1]
    lifecycle.take(LaunchDue((B,)), JobEnded(1))
    assert (lifecycle.drains, lifecycle.state) == ([], "Scheduled")


def test_move_without_blocks_waits_for_the_end_of_the_job() -> None:
    lifecycle = active().take(Move(), deregister("moves to another executor", ended=True))
    assert (lifecycle.state, lifecycle.drains) == ("Restarting", [])
    assert type(lifecycle.take(JobEnded(1)).record.state) is BackingOff


def test_move_continues_when_the_receiver_restarts() -> None:
    lifecycle = active().take(Move(60_000), deregister("Restarting"))
    assert (lifecycle.state, lifecycle.posted) == ("Restarting", ["ReceiverStopped"])
    lifecycle.take(deregister("moves to another executor", ended=True))
    assert lifecycle.state == "BackingOff"
    assert (lifecycle.drains, lifecycle.posted) == ([1], [])


def test_receiver_that_restarts_before_it_gets_the_command_moves_all_the_same() -> None:
    lifecycle = active().take(Move(60_000), deregister("Restarting"), Registration(REGISTER, A))
    assert (lifecycle.state, lifecycle.posted) == ("Active", ["ReceiverStarted"])
    lifecycle.take(deregister("moves to another executor", ended=True))
    assert (lifecycle.state, lifecycle.drains) == ("BackingOff", [1])


@pytest.mark.parametrize("name", [name for name in STATES if name != "active"])
def test_only_an_active_receiver_moves(name: str) -> None:
    lifecycle = in_state(name)
    before = lifecycle.record
    assert (lifecycle.take(Move()).record, lifecycle.effects) == (before, ())


@pytest.mark.parametrize(("restarts", "after"), [(False, Active), (True, Restarting)])
def test_move_that_was_not_delivered_is_forgotten(restarts: bool, after: type) -> None:
    lifecycle = active().take(Move(60_000))
    (stop,) = lifecycle.sent
    if restarts:
        lifecycle.take(deregister("Restarting"))
    assert type(lifecycle.take(Undelivered(1, stop)).record.state) is after
    lifecycle.take(deregister("enough", ended=True))
    assert (lifecycle.state, lifecycle.drains) == ("Restarting", [])


def test_draining_launch_is_released_once_it_is_not_needed_and_again_if_not_delivered() -> None:
    lifecycle = active().take(Move(60_000), deregister(ended=True))
    assert lifecycle.take(Tick(frozenset({1}))).sent == []
    assert lifecycle.take(Tick()).sent == [ReleaseReceiver()]
    assert lifecycle.take(Tick()).sent == []
    assert lifecycle.take(Undelivered(1, ReleaseReceiver()), Tick()).sent == [ReleaseReceiver()]


# -- rate and pause --


def update(rate: float | None, number: int, paused: bool = False) -> UpdateRateLimit:
    return UpdateRateLimit(rate, number, paused)


def test_each_change_has_a_higher_number_and_no_change_sends_nothing() -> None:
    lifecycle = active()
    assert lifecycle.take(RateLimit(10.0)).sent == [update(10.0, 1)]
    assert lifecycle.take(Pause("backlog", True)).sent == [update(10.0, 2, paused=True)]
    assert lifecycle.take(Pause("backlog", True)).sent == lifecycle.take(RateLimit(10.0)).sent == []


def test_receiver_resumes_when_no_reason_to_pause_applies() -> None:
    lifecycle = active().take(Pause("backlog", True), Pause("pending batches", True))
    assert lifecycle.take(Pause("backlog", False)).sent == []
    assert lifecycle.take(Pause("pending batches", False)).sent == [update(None, 2)]
    assert lifecycle.take(Pause("pending batches", False)).sent == []


@pytest.mark.parametrize("name", [name for name in STATES if name not in ("active", "moving")])
def test_change_is_not_sent_to_a_receiver_that_does_not_receive(name: str) -> None:
    assert in_state(name).take(RateLimit(10.0)).sent == []
    assert in_state(name).take(Pause("backlog", True)).sent == []


def test_registration_is_answered_with_what_is_desired_then() -> None:
    lifecycle = launched().take(RateLimit(10.0), Pause("backlog", True), Registration(REGISTER, A))
    assert lifecycle.answer == Registered(accepted=True, desired=update(10.0, 2, paused=True))
    assert lifecycle.take(Tick()).sent == []


def test_change_that_was_not_delivered_is_sent_again_as_desired_then() -> None:
    lifecycle = active().take(RateLimit(10.0))
    (first,) = lifecycle.sent
    lifecycle.take(Undelivered(1, first))
    assert lifecycle.take(RateLimit(20.0)).sent == [update(20.0, 2)]
    # The first one is late news.
    assert lifecycle.take(Undelivered(1, first), Tick()).sent == []
    assert lifecycle.take(Undelivered(1, update(20.0, 2)), Tick()).sent == [update(20.0, 2)]
    assert lifecycle.take(Tick()).sent == []


def test_numbers_grow_over_relaunches() -> None:
    lifecycle = active().take(RateLimit(10.0), DIED, LaunchDue())
    lifecycle.take(Registration(RegisterReceiver(0, 2, "Silent", 1), A))
    assert lifecycle.answer.desired == update(10.0, 1)
    assert lifecycle.take(RateLimit(20.0)).sent == [update(20.0, 2)]


# -- the application stops --


@pytest.mark.parametrize(
    ("name", "after", "effects"),
    [
        ("waiting", Stopped, []),
        ("backing off", Stopped, []),
        ("scheduled", Ending, [CancelJob(1)]),
        ("overdue", Ending, [CancelJob(1)]),
        ("refused", Ending, [CancelJob(1)]),
        ("active", Stopping, [Send(1, StopReceiver("Stopped by driver", 500), urgent=True)]),
        ("moving", Stopping, [Send(1, StopReceiver("Stopped by driver", 500), urgent=True)]),
        ("restarting", Ending, [Send(1, StopReceiver("Stopped by driver", 500), urgent=True)]),
        ("given up", GivenUp, []),
    ],
)
def test_stop_reaches_every_launch_that_may_hold_records(name: str, after: type, effects: list[Effect]) -> None:
    lifecycle = in_state(name).take(Stop(500))
    assert (lifecycle.state, list(lifecycle.effects)) == (after.__name__, effects)
    # A second one changes nothing.
    before = lifecycle.record
    assert (lifecycle.take(Stop(500)).record, lifecycle.effects) == (before, ())


def test_stop_overtakes_what_draining_launches_are_sent() -> None:
    lifecycle = active().take(Move(60_000), deregister(ended=True), Stop(500))
    assert lifecycle.of(Send) == [Send(1, StopReceiver("Stopped by driver", 500), urgent=True)]


def test_stop_is_sent_again_until_it_is_delivered() -> None:
    lifecycle = active().take(Stop())
    (stop,) = lifecycle.sent
    assert lifecycle.take(Tick()).sent == []
    assert lifecycle.take(Undelivered(1, stop), Tick()).of(Send) == [Send(1, stop, urgent=True)]
    assert lifecycle.take(Tick()).sent == []
    # Also when the receiver has deregistered to restart meanwhile: its buffer may hold records.
    assert lifecycle.take(Undelivered(1, stop), deregister("Restarting"), Tick()).sent == [stop]


def test_command_to_move_is_not_sent_again_once_the_application_stops() -> None:
    lifecycle = active().take(Move(60_000))
    (move,) = lifecycle.sent
    assert lifecycle.take(Stop(500), Undelivered(1, move), Tick()).sent == []


def test_stopping_receiver_that_reports_its_end_is_stopped_and_serves() -> None:
    lifecycle = active().take(Stop(500), deregister("Stopped by driver", ended=True))
    assert (lifecycle.record.state, lifecycle.answer, lifecycle.posted) == (Stopped(), Reply(), ["ReceiverStopped"])
    # Nothing is released before the last batches have run.
    assert lifecycle.take(Tick()).sent == []
    assert lifecycle.take(JobEnded(1)).drains == []


def test_restarting_receiver_may_hold_records_until_it_reports_its_end() -> None:
    lifecycle = active().take(deregister("Restarting"), Stop())
    assert lifecycle.state == "Ending"
    assert lifecycle.take(deregister("Stopped by driver", ended=True)).record.state == Stopped()


def test_error_of_a_stopping_receiver_is_reported_and_not_counted() -> None:
    lifecycle = active().take(Stop(), deregister("lost", "Traceback"))
    assert lifecycle.posted == ["ReceiverError", "ReceiverStopped"]
    assert lifecycle.record.failures_ms == ()


def test_stop_asks_draining_launches_to_serve_the_last_batches() -> None:
    lifecycle = active().take(Move(60_000), deregister(ended=True), Stop(500))
    assert lifecycle.sent == [StopReceiver("Stopped by driver", 500)]


def test_events_carry_the_receiver_as_it_was_when_they_happened() -> None:
    lifecycle = active().take(DIED)
    (error, stopped) = (effect.event for effect in lifecycle.of(Post))
    assert isinstance(error, ReceiverError)
    assert error.receiverInfo.active
    assert isinstance(stopped, ReceiverStopped)
    assert not stopped.receiverInfo.active


# -- executors that are lost --


@pytest.mark.parametrize("name", STATES)
def test_job_of_a_registered_receiver_is_cancelled_once_when_its_executor_is_lost(name: str) -> None:
    lifecycle = in_state(name).take(ExecutorLost())
    cancels = name in ("active", "moving", "restarting", "stopping", "ending")
    assert lifecycle.of(CancelJob) == [CancelJob(1)] * cancels
    assert not lifecycle.record.is_active
    assert lifecycle.take(ExecutorLost()).of(CancelJob) == []


def test_receiver_of_a_lost_executor_is_reported_and_relaunched() -> None:
    lifecycle = active().take(ExecutorLost())
    assert lifecycle.posted == ["ReceiverError", "ReceiverStopped"]
    assert lifecycle.record.last_end.message == "the executor 1 on host-a is lost"
    lifecycle.take(JobEnded(1, "job cancelled", "Traceback"))
    assert (lifecycle.state, lifecycle.posted) == ("BackingOff", [])
    assert len(lifecycle.record.failures_ms) == 1


def test_lost_executor_counts_against_the_restart_budget() -> None:
    lifecycle = active(max_receiver_failures=0, on_receiver_failure="fail-application").take(ExecutorLost())
    assert lifecycle.state == "GivenUp"
    assert len(lifecycle.of(FailApplication)) == 1
    assert lifecycle.of(CancelJob) == [CancelJob(1)]


def test_stop_does_not_wait_for_a_receiver_whose_executor_is_lost() -> None:
    lifecycle = active().take(Stop(), ExecutorLost())
    assert lifecycle.state == "Ending"
    assert lifecycle.take(JobEnded(1, "job cancelled")).state == "Stopped"
