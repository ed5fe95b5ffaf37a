"""The events and the effects of the receiver life cycle.

The messages ``DeregisterReceiver`` and ``ReportError`` of a receiver are events as they are.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from penstock.listen.events import Event
from penstock.receive.messages import DeregisterReceiver, RegisterReceiver, ReportError
from penstock.spark.cluster import TaskLocation
from penstock.track.receiver_tracking_info import BlockLocation

# -- events: launches and their reports --


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


# -- events: commands and observations of the tracker --


@frozen
class Move:
    """The receiver should run on another executor; its task then serves its blocks while batches need them."""

    serve_ms: int = 0


@frozen
class ServeLonger:
    """Draining launches should serve their blocks for this much longer."""

    serve_ms: int


@frozen
class RateLimit:
    """The rate limit for the receiver has changed, records/s; ``None`` for no limit."""

    rate: float | None


@frozen
class Pause:
    """A reason for which the receiver pauses applies from now on, or no longer."""

    reason: str
    applies: bool


@frozen
class ExecutorLost:
    """Spark no longer lists the executor that the receiver registered from."""


@frozen
class ProblemFound:
    """A problem that listeners should see as an error of this receiver, such as blocks that tasks could not read."""

    message: str
    lost_blocks: int = 0
    lost_records: int = 0


@frozen
class BacklogFull:
    """The receiver pauses because of its host's backlog. Listeners see that as an error, at most once a minute."""

    message: str


@frozen
class Tick:
    """Time has passed. ``needed`` are the epochs of draining launches that alone serve blocks which a batch needs."""

    needed: frozenset[int] = frozenset()


@frozen
class Stop:
    """The application stops; tasks serve their blocks for some time after their receiver has stopped."""

    serve_ms: int = 0


LaunchEvent = LaunchDue | LaunchFailed | Registration | DeregisterReceiver | ReportError | JobEnded | Undelivered
Demand = Move | ServeLonger | RateLimit | Pause | Tick | Stop
LifecycleEvent = LaunchEvent | Demand | ExecutorLost | ProblemFound | BacklogFull

# -- effects: carried out by the tracker --


@frozen
class StartJob:
    """Submit the job of a launch."""

    epoch: int
    candidates: tuple[TaskLocation, ...]


@frozen
class CancelJob:
    """Cancel the job of a launch."""

    epoch: int


@frozen
class Connect:
    """Connect to the endpoint of a launch that has registered, in place of an earlier connection to it."""

    message: RegisterReceiver
    location: BlockLocation


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
    """Give an event to the listeners."""

    event: Event


@frozen
class WakeUp:
    """Launch the receiver after a delay, if it is still backing off then."""

    delay_ms: float


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


Effect = StartJob | CancelJob | Connect | Send | Answer | Post | WakeUp | FailApplication | Log
