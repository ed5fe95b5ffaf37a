"""What the life cycle of a receiver has the ReceiverTracker do."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from penstock.listen import events
from penstock.receive.messages import RegisterReceiver
from penstock.spark.cluster import TaskLocation
from penstock.track.receiver_tracking_info import BlockLocation


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

    event: events.Event


@frozen
class WakeUp:
    """Launch the receiver after a delay, if it still waits for that."""

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
