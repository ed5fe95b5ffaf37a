"""What the driver knows of a receiver: its record and the states of its life cycle.

Values only; ``receiver_lifecycle.step`` alone derives a new record from an old one. The states::

    Waiting ──> Scheduled ──> Active <──> Restarting       Active ──> Moving ──> BackingOff
                    ^                                      any job that ends ──> BackingOff | GivenUp
                    └─────── BackingOff                    application stops ──> Stopping ──> Stopped

A launch that has stopped receiving and still serves its blocks is one of the record's ``draining`` launches. The
receiver may already run elsewhere then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from penstock.conf import Settings
from penstock.listen.events import ReceiverInfo
from penstock.receive.messages import StopReceiver
from penstock.spark.cluster import TaskLocation


@frozen
class BlockLocation:
    """Where a receiver runs and stores its blocks. Two with the same address and directory are equal.

    Attributes:
        host: Spark's name of the host, for preferred locations; empty when Spark does not report it.
        address: address that the receiver's endpoint listens on.
        directory: directory of this run's blocks on that host; empty when blocks are in the write-ahead log.
    """

    host: str = field(default="", eq=False)
    address: str = ""
    directory: str = ""


@frozen
class Launch:
    """One launch: a Spark job of one task.

    Attributes:
        epoch: number of the launch; grows with every launch of the stream.
        started_ms: when the job was submitted, monotonic.
        failure_counted: a failure since the launch or the last registration was counted and reported.
        survived_error: traceback of the last error since then after which the receiver continued.
    """

    epoch: int
    started_ms: float
    failure_counted: bool = False
    survived_error: str = ""


@frozen
class DesiredState:
    """Rate limit and pause that a receiver should obey. Equal numbers mean equal contents.

    Attributes:
        number: grows with every change.
        rate: records/s, ``None`` for no limit.
        paused: store nothing.
    """

    number: int = 0
    rate: float | None = None
    paused: bool = False


# -- states --


@frozen
class Waiting:
    """The receiver is not launched yet: executors have not joined."""


@frozen
class Scheduled:
    """The job is submitted; the receiver has not registered.

    Attributes:
        candidates: executors and hosts that it was scheduled to.
        refused: it registered from another executor and was refused; its job is about to end.
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
    """The receiver was sent a stop, to be relaunched on another executor.

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
    """No job runs; the relaunch is scheduled.

    Attributes:
        until_ms: time of the relaunch, monotonic.
        candidates: those of the last launch if it never registered: the relaunch uses them again.
    """

    until_ms: float
    candidates: tuple[TaskLocation, ...] = ()


@frozen
class GivenUp:
    """The receiver failed too often and is never relaunched.

    Attributes:
        launch: the last launch while its job runs and may still report blocks.
    """

    launch: Launch | None = None


@frozen
class Stopped:
    """The application stops, and nothing of the receiver holds records any more."""


State = Waiting | Scheduled | Active | Moving | Restarting | Stopping | BackingOff | GivenUp | Stopped


@frozen
class ReceiverTrackingInfo:
    """What the driver knows of one receiver.

    Attributes:
        info: the part that listeners see; ``info.active`` means that the receiver is registered and receives.
        settings: hold the restart budget, the delays of relaunches and the launch timeout.
        state: position in the life cycle.
        epoch: number of the last launch.
        desired: rate and pause.
        sent: number of the desired state that was sent to the current launch last; 0 when that was not delivered.
        draining: launches that have stopped receiving and serve their blocks: by epoch, whether a release was sent
            because no batch needs these blocks.
        location: executor of the launch that registered last; ``None`` when Spark does not report it.
        block_location: location of that launch's blocks.
        preferred: host that the receiver preferred at its last launch.
        refusals: registrations on a wrong executor in a row.
        relaunches: since a launch was healthy; the exponent of the back-off.
        failures_ms: the last failures that count against the restart budget, monotonic.
        jitter_seed: seeds the jitter of back-offs; differs between applications, so that their receivers do not retry
            in step.
    """

    info: ReceiverInfo
    settings: Settings
    state: State = Waiting()
    epoch: int = 0
    desired: DesiredState = DesiredState()
    sent: int = 0
    draining: Mapping[int, bool] = {}
    location: TaskLocation | None = None
    block_location: BlockLocation = BlockLocation()
    preferred: str | None = None
    refusals: int = 0
    relaunches: int = 0
    failures_ms: tuple[float, ...] = ()
    jitter_seed: str = ""

    @property
    def launch(self) -> Launch | None:
        """The current job, which may hold or receive records; draining launches do not count."""
        return getattr(self.state, "launch", None)

    @property
    def candidates(self) -> tuple[TaskLocation, ...]:
        """Where the receiver was scheduled to, until it registers."""
        return self.state.candidates if isinstance(self.state, Scheduled | BackingOff) else ()


def new_record(stream_id: int, receiver_type: str, settings: Settings, **fields: Any) -> ReceiverTrackingInfo:
    """The record of a receiver that was never launched in this run."""
    info = ReceiverInfo(stream_id, f"{receiver_type}-{stream_id}", active=False, location="", executorId="")
    return ReceiverTrackingInfo(info, settings, **fields)
