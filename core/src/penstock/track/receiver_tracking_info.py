"""What the driver knows of a receiver: its record and the states of its life cycle.

Values only; ``receiver_lifecycle.step`` is the one function that makes a new record of an old one. The states::

    Waiting ──> Scheduled ──> Active <──> Restarting       Active ──> Moving ──> BackingOff
                    ^                                      any job that ends ──> BackingOff | GivenUp
                    └─────── BackingOff                    application stops ──> Stopping ──> Stopped

A launch that has stopped receiving and still serves its blocks is not a state of the receiver, which may run elsewhere
by then: it is one of the record's ``draining`` launches.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from penstock.conf import Settings
from penstock.listen.events import ReceiverInfo
from penstock.receive.messages import StopReceiver
from penstock.spark.cluster import TaskLocation


@frozen
class RelaunchPolicy:
    """When a receiver is relaunched, and when no more.

    Attributes:
        max_restarts: failures within ``restart_window_ms`` that are tolerated.
        restart_window_ms: how long a failure counts.
        on_failure: what follows when there are more: ``restart`` (marked unhealthy), ``stop-stream`` (given up) or
            ``fail-application``.
        first_delay_ms: nominal delay of the first relaunch; it doubles with each one, and is jittered down to a half.
        longest_delay_ms: no nominal delay is longer.
        launch_timeout_ms: how long a launch may take to register; 0 for no timeout.
        jitter_seed: differs between applications, so that their receivers do not retry in step.
    """

    max_restarts: int = 3
    restart_window_ms: float = 60_000
    on_failure: str = "restart"
    first_delay_ms: float = 100
    longest_delay_ms: float = 10_000
    launch_timeout_ms: float = 0
    jitter_seed: str = ""

    @classmethod
    def of(cls, settings: Settings, jitter_seed: str) -> RelaunchPolicy:
        """The policy that is configured."""
        return cls(
            settings.max_restarts,
            settings.restart_window_ms,
            settings.on_receiver_failure,
            settings.relaunch_delay_ms,
            settings.max_relaunch_delay_ms,
            settings.launch_timeout_ms,
            jitter_seed,
        )


@frozen
class BlockLocation:
    """Where a receiver runs and stores its blocks. Two with the same address and directory are equal.

    Attributes:
        host: Spark's name of it, for preferred locations; empty when Spark does not report it.
        address: on which the receiver's endpoint listens.
        directory: holds this run's blocks on that host; empty when blocks are in the write-ahead log.
    """

    host: str = field(default="", eq=False)
    address: str = ""
    directory: str = ""


@frozen
class Launch:
    """One launch: a Spark job of one task.

    Attributes:
        epoch: its number; grows with every launch of the stream.
        started_ms: when the job was submitted, monotonic.
        failure_counted: the receiver has failed since it was launched or registered last, and that was reported.
        survived_error: traceback of the last error that the receiver reported since then and continued after.
    """

    epoch: int
    started_ms: float
    failure_counted: bool = False
    survived_error: str = ""


@frozen
class DesiredState:
    """What a receiver should keep to. Each change has a higher number; equal numbers mean equal contents.

    Attributes:
        number: this version's.
        rate: records/s, ``None`` for no limit.
        paused: store nothing.
    """

    number: int = 0
    rate: float | None = None
    paused: bool = False


# -- states --


@frozen
class Waiting:
    """Not launched yet: executors have not joined."""


@frozen
class Scheduled:
    """The job is submitted; the receiver has not registered.

    Attributes:
        candidates: executors and hosts that it was scheduled to.
        refused: it came up somewhere else and was refused; its job is about to end.
        overdue: it exceeded the launch timeout; its job was cancelled.
    """

    launch: Launch
    candidates: tuple[TaskLocation, ...] = ()
    refused: bool = False
    overdue: bool = False


@frozen
class Active:
    """The receiver is registered and receives."""

    launch: Launch


@frozen
class Moving:
    """The receiver was sent a stop so that it comes up on another executor.

    Attributes:
        serves: its task serves its blocks after the receiver has stopped.
    """

    launch: Launch
    serves: bool


@frozen
class Restarting:
    """The receiver has deregistered; its task still runs and either registers again or ends."""

    launch: Launch


@frozen
class Stopping:
    """The application stops, and the launch may still hold records.

    Attributes:
        stop: the message to deliver; ``None`` for a launch that has not registered, whose job is cancelled instead.
        sent: the message is on its way or delivered; otherwise the next tick sends it again.
    """

    launch: Launch
    stop: StopReceiver | None
    sent: bool = True


@frozen
class BackingOff:
    """No job; the next one is launched at a time.

    Attributes:
        until_ms: monotonic.
        candidates: the last launch's, if it never registered: the next one is tried there.
    """

    until_ms: float
    candidates: tuple[TaskLocation, ...] = ()


@frozen
class GivenUp:
    """The receiver failed too often and is never relaunched.

    Attributes:
        launch: its last job while that runs and may still report blocks.
    """

    launch: Launch | None = None


@frozen
class Stopped:
    """The application stops, and nothing of the receiver holds records any more."""


State = Waiting | Scheduled | Active | Moving | Restarting | Stopping | BackingOff | GivenUp | Stopped


@frozen
class Draining:
    """A launch that has stopped receiving and serves its blocks.

    Attributes:
        released: a release was sent to it: nobody needs its blocks.
    """

    launch: Launch
    released: bool = False


@frozen
class ReceiverTrackingInfo:
    """All that the driver knows of one receiver.

    Attributes:
        info: what listeners see; ``info.active`` means that the receiver is registered and receives.
        policy: decides on relaunches.
        state: position in the life cycle.
        epoch: number of the last launch.
        desired: rate and pause.
        sent: number of the desired state that was sent to the current launch last; 0 when that was not delivered.
        draining: launches that serve blocks and are about to end.
        location: executor of the launch that registered last; ``None`` when Spark does not report it.
        block_location: that launch's.
        preferred: host that the receiver preferred at its last launch.
        refusals: registrations on a wrong executor in a row.
        relaunches: since a launch was healthy; the exponent of the back-off.
        failures_ms: the last failures that count against the restart budget, monotonic.
    """

    info: ReceiverInfo
    policy: RelaunchPolicy = RelaunchPolicy()
    state: State = Waiting()
    epoch: int = 0
    desired: DesiredState = DesiredState()
    sent: int = 0
    draining: tuple[Draining, ...] = ()
    location: TaskLocation | None = None
    block_location: BlockLocation = BlockLocation()
    preferred: str | None = None
    refusals: int = 0
    relaunches: int = 0
    failures_ms: tuple[float, ...] = ()

    @property
    def launch(self) -> Launch | None:
        """The current job, which may hold or receive records; draining launches do not count."""
        return getattr(self.state, "launch", None)

    @property
    def candidates(self) -> tuple[TaskLocation, ...]:
        """Where the receiver was scheduled to, until it registers."""
        return self.state.candidates if isinstance(self.state, Scheduled | BackingOff) else ()

    @property
    def is_settled(self) -> bool:
        """Whether the receiver runs, and nothing is under way to change where."""
        return isinstance(self.state, Active)


def new_record(stream_id: int, receiver_type: str, **fields: Any) -> ReceiverTrackingInfo:
    """The record of a receiver that was never launched in this run."""
    info = ReceiverInfo(stream_id, f"{receiver_type}-{stream_id}", active=False, location="", executorId="")
    return ReceiverTrackingInfo(info, **fields)
