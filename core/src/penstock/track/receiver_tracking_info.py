"""The record of a receiver on the driver: its states, and the events and effects of its life cycle.

Values only; ``relaunch_lifecycle.step`` alone derives a new record from an old one. docs/architecture.md has a diagram
of the states. A launch that has stopped receiving and still serves its blocks is one of the record's ``draining``
launches; the receiver may already run elsewhere then.
"""

from __future__ import annotations

import math
from typing import Any

from attrs import field, frozen

from penstock.listen.events import Event, PastError, ReceiverInfo, SourceStatus, StoreTimes
from penstock.receive.messages import DeregisterReceiver, RegisterReceiver, ReportError, StopReceiver, UpdateRateLimit
from penstock.receive.relaunch_policy import RelaunchPolicy
from penstock.spark.cluster import TaskLocation


@frozen
class BlockLocation:
    """The address and block directory of a receiver. Two with the same address and directory are equal."""

    # Spark's name of the host, for preferred locations; empty when Spark does not report it.
    host: str = field(default="", eq=False)
    # The receiver's endpoint listens there.
    address: str = ""
    # Directory of this run's blocks on that host; empty when blocks are in the write-ahead log.
    directory: str = ""


@frozen
class Launch:
    """One launch: a Spark job of one task.

    Attributes:
        epoch: number of the launch; grows with every launch of the stream.
        started_ms: when the job was submitted, monotonic.
        serve_ms: how long it was asked to serve its blocks when the receiver has moved to another executor.
        survived_error: traceback of the last error after which the receiver continued, since its last registration.
        executor_lost: whether Spark no longer lists its executor, so that its job was cancelled.
    """

    epoch: int
    started_ms: float
    serve_ms: int = 0
    survived_error: str = ""
    executor_lost: bool = False


# -- states --


@frozen
class Waiting:
    """The receiver is not launched yet: executors have not joined."""


@frozen
class Scheduled:
    """The job is submitted to candidates, executors and hosts; the receiver has not registered."""

    launch: Launch
    candidates: tuple[TaskLocation, ...] = ()


@frozen
class Overdue:
    """The launch timeout has passed: the failure was counted and the job cancelled. It may still register."""

    launch: Launch
    candidates: tuple[TaskLocation, ...] = ()


@frozen
class Refused:
    """The receiver registered from an executor that it was not scheduled to; its job is about to end.

    It is cancelled if it has not ended by the monotonic deadline.
    """

    launch: Launch
    candidates: tuple[TaskLocation, ...] = ()
    deadline_ms: float = math.inf


@frozen
class Active:
    """The receiver is registered and receives."""

    launch: Launch


@frozen
class Moving:
    """The receiver still receives. It was sent a stop, to be relaunched on another executor."""

    launch: Launch


@frozen
class Restarting:
    """The receiver has deregistered; its task still runs and either registers again or ends.

    ``error`` is the traceback of the failure that stopped it, already counted; empty if it stopped without one. A task
    that hangs beyond the monotonic deadline is cancelled.
    """

    launch: Launch
    error: str = ""
    deadline_ms: float = math.inf


@frozen
class Stopping:
    """The application stops; the receiver was sent a stop and still receives. A tick resends an undelivered stop."""

    launch: Launch
    undelivered: StopReceiver | None = None


@frozen
class Ending:
    """The application stops; the receiver does not receive, but its launch has not ended and may still hold records.

    A launch that never registered gets no stop: its job is cancelled.
    """

    launch: Launch
    undelivered: StopReceiver | None = None


@frozen
class BackingOff:
    """No job runs; the relaunch is due at a monotonic time, with the last candidates if the launch never registered."""

    until_ms: float
    candidates: tuple[TaskLocation, ...] = ()


@frozen
class GivenUp:
    """The receiver failed too often and is never relaunched. The last launch's job may still run and report blocks."""

    launch: Launch | None = None


@frozen
class Stopped:
    """The application stops, and no launch of the receiver holds records."""


# The states of a launch that has not registered, and of one that has, even if it receives no more.
Unregistered = Scheduled | Overdue | Refused
RegisteredOnce = Active | Moving | Restarting | Stopping | Ending
State = Waiting | Unregistered | RegisteredOnce | BackingOff | GivenUp | Stopped


@frozen
class ReceiverTrackingInfo:
    """The record of one receiver on the driver.

    Attributes:
        name: ``<class>-<stream id>``.
        epoch: number of the last launch.
        sent: number of the desired state that was sent to the current launch last; 0 when that was not delivered.
        draining: epochs of launches that have stopped receiving and serve their blocks.
        released: epochs of those that were sent a release, because no batch needs their blocks.
        location: executor of the launch that registered last; ``None`` when Spark does not report it.
        preferred: host that the receiver preferred at its last launch.
        refusals: consecutive registrations from a wrong executor.
        relaunches: number of relaunches since a launch was healthy; the exponent of the back-off.
        failures_ms: the last failures that count against the failure budget, monotonic.
        last_end: reason of the last stop or failure, with the time of the last error.
        last_log_lines: the log of the receiver's process when it last reported an error itself.
        source: the last status of its source that the current launch has reported.
        times: where the time of the current launch has gone, as last reported.
        lost_blocks: stored blocks that a batch needed and that were lost.
        jitter_seed: differs between applications, so that their receivers do not retry in step.
    """

    stream_id: int
    name: str
    policy: RelaunchPolicy
    state: State = Waiting()
    epoch: int = 0
    pause_reasons: frozenset[str] = frozenset()
    desired: UpdateRateLimit = field(default=UpdateRateLimit(None, 0))
    sent: int = 0
    draining: frozenset[int] = frozenset()
    released: frozenset[int] = frozenset()
    location: TaskLocation | None = None
    block_location: BlockLocation = BlockLocation()
    preferred: str | None = None
    refusals: int = 0
    relaunches: int = 0
    failures_ms: tuple[float, ...] = ()
    unhealthy: bool = False
    last_end: PastError = field(default=PastError(-1, ""))
    recent_errors: tuple[PastError, ...] = ()
    last_log_lines: tuple[str, ...] = ()
    source: SourceStatus | None = None
    times: StoreTimes | None = None
    lost_blocks: int = 0
    lost_records: int = 0
    jitter_seed: str = ""

    @property
    def launch(self) -> Launch | None:
        """The current job, which may hold or receive records; draining launches do not count."""
        return getattr(self.state, "launch", None)

    @property
    def candidates(self) -> tuple[TaskLocation, ...]:
        """The host to which the receiver was scheduled, until it registers."""
        return getattr(self.state, "candidates", ())

    @property
    def is_active(self) -> bool:
        return isinstance(self.state, Active | Moving | Stopping)

    @property
    def is_given_up(self) -> bool:
        return isinstance(self.state, GivenUp)

    @property
    def executor(self) -> dict[str, str]:
        """The Spark executor log that contains the receiver's lines, as fields of log events."""
        return {} if self.location is None else {"host": self.location.host, "executor_id": self.location.executor_id}

    @property
    def info(self) -> ReceiverInfo:
        """The record as listeners see it."""
        return ReceiverInfo(
            streamId=self.stream_id,
            name=self.name,
            active=self.is_active,
            location=self.location.host if self.location else "",
            executorId=self.location.executor_id if self.location else "",
            lastErrorMessage=self.last_end.message,
            lastError=self.last_end.error,
            lastErrorTime=self.last_end.time,
            recent_errors=self.recent_errors,
            last_log_lines=self.last_log_lines,
            unhealthy=self.unhealthy or self.is_given_up,
            given_up=self.is_given_up,
            lost_blocks=self.lost_blocks,
            lost_records=self.lost_records,
            source=self.source if self.is_active else None,
            times=self.times if self.is_active else None,
        )


# -- events; the messages ``DeregisterReceiver`` and ``ReportError`` are events as they are --


@frozen
class LaunchDue:
    """The receiver is to be launched, for the first time or after its back-off; without candidates on any executor."""

    candidates: tuple[TaskLocation, ...] = ()
    preferred: str | None = None


@frozen
class LaunchFailed:
    """The receiver could not be launched, because ``preferredLocation`` raised: reason in one line, traceback."""

    reason: str
    error: str = ""


@frozen
class Registration:
    """A receiver registers. ``location`` is ``None`` when Spark does not report the executor of its task."""

    message: RegisterReceiver
    location: TaskLocation | None = None


@frozen
class StatusReported:
    """The launch of this epoch has reported the status of its source, or where its time has gone."""

    epoch: int
    source: SourceStatus | None = None
    times: StoreTimes | None = None


@frozen
class JobEnded:
    """The Spark job of a launch has ended: reason of a failure in one line, traceback; both empty on success."""

    epoch: int
    reason: str = ""
    error: str = ""


@frozen
class Undelivered:
    """A message did not reach the launch of this epoch."""

    epoch: int
    message: object


@frozen
class Move:
    """The receiver should run on another executor; its task then serves its blocks while batches need them."""

    serve_ms: int = 0


@frozen
class RateLimit:
    """The rate limit for the receiver has changed, records/s; ``None`` for no limit."""

    rate: float | None


@frozen
class Pause:
    """A reason to pause the receiver begins or ends."""

    reason: str
    applies: bool


@frozen
class ExecutorLost:
    """Spark no longer lists the executor that the receiver registered from."""


@frozen
class ProblemFound:
    """A problem that listeners should see as an error of this receiver, such as blocks that are lost."""

    message: str
    lost_blocks: int = 0
    lost_records: int = 0


@frozen
class Tick:
    """Time has passed. ``needed`` are the epochs of draining launches that alone serve blocks which a batch needs."""

    needed: frozenset[int] = frozenset()


@frozen
class Stop:
    """The application stops; tasks serve their blocks for some time after their receiver has stopped."""

    serve_ms: int = 0


_LaunchEvent = LaunchDue | LaunchFailed | Registration | DeregisterReceiver | ReportError | JobEnded | Undelivered
LifecycleEvent = _LaunchEvent | StatusReported | Move | RateLimit | Pause | Tick | Stop | ExecutorLost | ProblemFound

# -- effects, carried out in their order by the tracker --


@frozen
class CancelJob:
    """Cancel the job of a launch."""

    epoch: int


@frozen
class Connect:
    """Connect to the endpoint of a launch that has registered, in place of an earlier connection to it."""

    message: RegisterReceiver


@frozen
class Send:
    """Send a message to a launch; ``urgent`` overtakes messages that wait for an answer."""

    epoch: int
    message: object
    urgent: bool = False


@frozen
class Answer:
    """Answer the message that was the event."""

    message: object


@frozen
class Post:
    """Post an event to the listeners."""

    event: Event


@frozen
class FailApplication:
    """Stop the application with this error."""

    message: str


@frozen
class Log:
    """Write a log line."""

    level: str
    event: str
    context: dict[str, Any]


Effect = CancelJob | Connect | Send | Answer | Post | FailApplication | Log
