"""The receiver life cycle explored at random, with the receivers' side, the network and Spark's jobs simulated."""

from __future__ import annotations

from attrs import define, evolve, field
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.helpers.examples import examples
from tests.helpers.relaunch_transitions import relaunch_transitions

from penstock.conf import Settings
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
    Ending,
    ExecutorLost,
    FailApplication,
    GivenUp,
    JobEnded,
    LaunchDue,
    LaunchFailed,
    LifecycleEvent,
    Move,
    Moving,
    Pause,
    RateLimit,
    ReceiverTrackingInfo,
    Registration,
    Scheduled,
    Send,
    Stop,
    Stopped,
    Stopping,
    Tick,
    Undelivered,
)
from penstock.track.relaunch_lifecycle import step

HERE, THERE = TaskLocation("host-a", "1"), TaskLocation("host-b", "2")
POLICY = RelaunchPolicy(Settings.parse({}))
TRANSITIONS = relaunch_transitions()
POLICIES = st.builds(
    lambda **values: RelaunchPolicy(evolve(POLICY.settings, **values)),
    max_receiver_failures=st.integers(0, 3),
    receiver_failure_window_ms=st.just(20_000),
    on_receiver_failure=st.sampled_from(["restart", "stop-stream", "fail-application"]),
    launch_timeout_ms=st.sampled_from([0, 5000]),
)


@define
class Job:
    """The job of a launch, and the receiver in it."""

    epoch: int
    registered: bool = False
    receives: bool = False
    ended: bool = False
    cancelled: bool = False
    serves: bool = False
    released: bool = False
    number: int = 0
    obeyed: tuple[float | None, bool | None] = (None, False)
    blocks: set[int] = field(factory=set)


class ReceiverLifecycleMachine(RuleBasedStateMachine):
    """One stream. Rules are what a receiver, Spark, the network, the clock and the tracker may do at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.record = ReceiverTrackingInfo(0, "Silent-0", POLICY)
        self.now_ms = 0.0
        self.jobs: dict[int, Job] = {}
        self.in_flight: list[Send] = []
        self.due: set[int] = {0}
        self.stopped = self.failed = False
        self.blocks = 0

    def take(self, event: LifecycleEvent) -> object:
        """Give an event to the record and carry out the effects; returns the answer."""
        was_over = isinstance(self.record.state, GivenUp | Stopping | Ending | Stopped)
        old = self.record
        self.record, effects = step(self.record, event, self.now_ms, int(self.now_ms))
        state, answer = self.record.state, None
        before, after = type(old.state), type(state)
        assert before is after or (before.__name__, after.__name__) in TRANSITIONS
        if isinstance(state, Scheduled) and self.record.epoch != old.epoch:
            assert not was_over
            assert [job for job in self.jobs.values() if not job.ended] == [], "a second active launch"
            assert state.launch.epoch > max(self.jobs, default=0)
            self.jobs[state.launch.epoch] = Job(state.launch.epoch)
        elif isinstance(state, BackingOff) and state is not old.state:
            assert not was_over
            self.due = {self.record.epoch}
        for effect in effects:
            match effect:
                case CancelJob():
                    self.jobs[effect.epoch].cancelled = True
                case Send():
                    if isinstance(effect.message, ReleaseReceiver):
                        assert not self.jobs[effect.epoch].blocks, "released while its blocks are needed"
                    self.in_flight.append(effect)
                case Answer():
                    answer = effect.message
                case FailApplication():
                    assert not self.failed
                    self.failed = True
                case _:
                    pass
        return answer

    def needed(self) -> frozenset[int]:
        return frozenset(epoch for epoch, job in self.jobs.items() if job.blocks)

    def some(self, condition: str) -> list[Job]:
        return [job for job in self.jobs.values() if getattr(job, condition)]

    # -- the tracker --

    @initialize(policy=POLICIES)
    def configure(self, policy: RelaunchPolicy) -> None:
        self.record = ReceiverTrackingInfo(0, "Silent-0", policy)

    @rule(candidates=st.sampled_from([(), (HERE,), (HERE, THERE)]), fails=st.integers(0, 9))
    @precondition(lambda self: self.record.epoch in self.due)
    def launch(self, candidates: tuple[TaskLocation, ...], fails: int) -> None:
        self.due.clear()
        # A stop may have come in between.
        self.take(LaunchDue(candidates) if fails else LaunchFailed("no preferred location"))

    @rule()
    @precondition(lambda self: self.record.epoch in self.due)
    def launch_and_register(self) -> None:
        """A complete start, which random steps alone rarely reach."""
        self.due.clear()
        self.take(LaunchDue())
        if isinstance(self.record.state, Scheduled):
            self._register(self.jobs[self.record.epoch], HERE)

    @rule(ms=st.sampled_from([100, 1000, 6000, 30_000]))
    def tick(self, ms: int) -> None:
        self.now_ms += ms
        self.take(Tick(self.needed()))

    @rule(rate=st.sampled_from([None, 10.0, 20.0]))
    def limit(self, rate: float | None) -> None:
        self.take(RateLimit(rate))

    @rule(reason=st.sampled_from(["backlog", "pending batches"]), applies=st.booleans())
    def pause(self, reason: str, applies: bool) -> None:
        self.take(Pause(reason, applies))

    @rule()
    def move(self) -> None:
        self.take(Move(60_000 if self.record.epoch in self.needed() else 0))

    @rule(chance=st.integers(0, 9))
    def stop_application(self, chance: int) -> None:
        if not chance:
            self.take(Stop(5000))
            self.stopped = True

    # -- the network --

    @rule(index=st.integers(0, 100))
    @precondition(lambda self: self.in_flight)
    def deliver(self, index: int) -> None:
        sent = self.in_flight.pop(index % len(self.in_flight))
        job, message = self.jobs.get(sent.epoch), sent.message
        if job is None or not job.registered:
            self.take(Undelivered(sent.epoch, message))
            return
        if isinstance(message, UpdateRateLimit):
            if message.number >= job.number:
                if message.number == job.number:
                    assert job.obeyed == (message.rate, message.paused), "one number, two contents"
                job.number, job.obeyed = message.number, (message.rate, message.paused)
        elif isinstance(message, StopReceiver):
            job.serves = job.serves or message.serve_ms > 0
        elif isinstance(message, ReleaseReceiver):
            job.released = True

    @rule(index=st.integers(0, 100))
    @precondition(lambda self: self.in_flight)
    def lose(self, index: int) -> None:
        sent = self.in_flight.pop(index % len(self.in_flight))
        self.take(Undelivered(sent.epoch, sent.message))

    # -- receivers: any of them, an old one too --

    @rule(data=st.data(), location=st.sampled_from([None, HERE, THERE]))
    @precondition(lambda self: self.jobs)
    def register(self, data: st.DataObject, location: TaskLocation | None) -> None:
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        if not job.ended:
            self._register(job, location)

    def _register(self, job: Job, location: TaskLocation | None) -> None:
        answer = self.take(Registration(RegisterReceiver(0, job.epoch, "Silent", 1), location))
        assert isinstance(answer, Registered)
        if answer.accepted:
            assert job.epoch == self.record.epoch
            job.registered = job.receives = True
            assert answer.desired is not None
            if answer.desired.number >= job.number:
                job.number, job.obeyed = answer.desired.number, (answer.desired.rate, answer.desired.paused)

    @rule()
    @precondition(lambda self: self.some("receives"))
    def store(self) -> None:
        for job in self.some("receives"):
            self.blocks += 1
            job.blocks.add(self.blocks)

    @rule()
    def process_all_blocks(self) -> None:
        for job in self.jobs.values():
            job.blocks.clear()

    @rule(error=st.sampled_from(["", "Traceback"]), ended=st.booleans())
    @precondition(lambda self: self.some("receives"))
    def deregister(self, error: str, ended: bool) -> None:
        for job in self.some("receives"):
            job.receives, job.ended = False, ended
            self.take(DeregisterReceiver(0, job.epoch, "done", error, ended=ended))

    @rule(error=st.sampled_from(["", "Traceback"]), restarts=st.booleans())
    @precondition(lambda self: isinstance(self.record.state, Active))
    def move_and_end(self, error: str, restarts: bool) -> None:
        """A complete move, which random steps alone rarely reach."""
        self.store()
        self.move()
        for _ in range(len(self.in_flight)):
            self.deliver(0)
        if restarts:
            self.deregister("", ended=False)
            self.end_between_two_starts()
        else:
            self.deregister(error, ended=True)

    @rule()
    @precondition(lambda self: self.some("registered"))
    def end_between_two_starts(self) -> None:
        for job in self.some("registered"):
            if not job.ended and not job.receives:
                job.ended = True
                self.take(DeregisterReceiver(0, job.epoch, "Stopped by driver", "", ended=True))

    @rule()
    @precondition(lambda self: self.some("receives"))
    def report_error(self) -> None:
        for job in self.some("receives"):
            self.take(ReportError(0, job.epoch, "lost", "Traceback"))

    # -- Spark --

    @rule(data=st.data(), reason=st.sampled_from(["", "worker exited"]))
    @precondition(lambda self: self.jobs)
    def end_job(self, data: st.DataObject, reason: str) -> None:
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        if job.ended and job.serves and job.blocks and not job.released and not reason:
            # In order it ends only when it was released, or nobody needs it.
            return
        del self.jobs[job.epoch]
        # A launch whose job has ended reports nothing more, and the order of both is not known to Spark.
        self.take(JobEnded(job.epoch, "job cancelled" if job.cancelled else reason))

    @rule()
    @precondition(lambda self: self.some("receives"))
    def lose_executor(self) -> None:
        for job in self.some("receives"):
            job.receives, job.ended, job.serves = False, True, False
            job.blocks.clear()
            self.take(ExecutorLost())
            assert job.cancelled

    # -- what always holds --

    @invariant()
    def current_launch_has_a_job(self) -> None:
        launch = self.record.launch
        assert launch is None or launch.epoch in self.jobs
        assert launch is None or launch.epoch == self.record.epoch

    @invariant()
    def active_in_the_eyes_of_listeners_means_receiving(self) -> None:
        receives = bool(self.some("receives"))
        assert self.record.info.active == receives
        assert isinstance(self.record.state, Active | Moving | Stopping) == receives

    @invariant()
    def given_up_and_stopped_are_final(self) -> None:
        if self.record.info.given_up:
            assert isinstance(self.record.state, GivenUp)
        if self.stopped:
            assert isinstance(self.record.state, GivenUp | Stopping | Ending | Stopped)

    @invariant()
    def back_off_has_a_wake_up(self) -> None:
        if isinstance(self.record.state, BackingOff):
            assert self.due == {self.record.epoch}

    @invariant()
    def launch_that_serves_blocks_is_remembered(self) -> None:
        known = set(self.record.draining | self.record.released)
        assert not self.record.draining & self.record.released
        if self.record.launch is not None:
            known.add(self.record.launch.epoch)
        assert set(self.jobs) == known

    @invariant()
    def receiver_keeps_to_what_is_desired_once_everything_is_delivered(self) -> None:
        desired, launch = self.record.desired, self.record.launch
        on_its_way = any(isinstance(sent.message, UpdateRateLimit) for sent in self.in_flight)
        if launch is None or on_its_way or not self.record.info.active or isinstance(self.record.state, Stopping):
            return
        if self.record.sent == desired.number:
            assert self.jobs[launch.epoch].obeyed == (desired.rate, desired.paused)


TestReceiverLifecycle = ReceiverLifecycleMachine.TestCase
TestReceiverLifecycle.settings = settings(
    max_examples=examples(70),
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
