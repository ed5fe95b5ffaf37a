"""What can happen to a receiver, as the life cycle sees it.

The messages ``DeregisterReceiver`` and ``ReportError`` are events as they are.
"""

from __future__ import annotations

from attrs import frozen

from penstock.receive.messages import DeregisterReceiver, RegisterReceiver, ReportError
from penstock.spark.cluster import TaskLocation


@frozen
class LaunchDue:
    """The receiver is to be launched: for the first time, or after its back-off.

    Attributes:
        candidates: that were chosen; none for anywhere.
        preferred: host that the receiver prefers.
    """

    candidates: tuple[TaskLocation, ...] = ()
    preferred: str | None = None


@frozen
class LaunchFailed:
    """The receiver could not be launched: ``preferredLocation`` raised.

    Attributes:
        reason: one line.
        error: the traceback.
    """

    reason: str
    error: str = ""


@frozen
class Registration:
    """A receiver registers.

    Attributes:
        message: its own.
        location: executor on which its task runs; ``None`` when Spark does not report it.
    """

    message: RegisterReceiver
    location: TaskLocation | None = None


@frozen
class JobEnded:
    """The Spark job of a launch has ended.

    Attributes:
        epoch: number of the launch.
        reason: why it failed, in one line; empty when it did not.
        error: the traceback.
    """

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
    """The receiver should run on another executor.

    Attributes:
        serve_ms: how long its task serves its blocks after it has stopped; 0 when nobody needs that.
    """

    serve_ms: int = 0


@frozen
class ServeLonger:
    """Draining launches should serve their blocks for this much longer."""

    serve_ms: int


@frozen
class DesiredChange:
    """Rate (records/s, ``None`` for no limit) and pause that the receiver should keep to from now on."""

    rate: float | None
    paused: bool


@frozen
class BlocksMissed:
    """Tasks could not read blocks of the stream.

    Attributes:
        blocks: how many.
        records: in them.
        message: what listeners see.
    """

    blocks: int
    records: int
    message: str


@frozen
class ProblemNoted:
    """The tracker has found something that listeners should see as an error of this receiver."""

    message: str


@frozen
class Tick:
    """Time has passed.

    Attributes:
        needed: epochs of draining launches whose blocks are needed and available from nobody else.
    """

    needed: frozenset[int] = frozenset()


@frozen
class Stop:
    """The application stops.

    Attributes:
        serve_ms: how long tasks serve their blocks after their receiver has stopped.
    """

    serve_ms: int = 0


LifecycleEvent = (
    LaunchDue
    | LaunchFailed
    | Registration
    | DeregisterReceiver
    | ReportError
    | JobEnded
    | Undelivered
    | Move
    | ServeLonger
    | DesiredChange
    | BlocksMissed
    | ProblemNoted
    | Tick
    | Stop
)
