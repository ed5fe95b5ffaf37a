"""``TrackedReceiver``: what the tracker knows of one receiver.

Owns the receiver's state on the driver, changed on the tracker's loop only, and the line to its launch at hand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Any

from attrs import Factory, define, evolve, field

from penstock.listen.events import PastError, ReceiverInfo
from penstock.receive.receiver import Receiver
from penstock.runtime.retry import Backoff
from penstock.spark.cluster import TaskLocation
from penstock.track.line import Line, Place
from penstock.track.receiver_launcher import ReceiverLaunch
from penstock.track.restart_budget import RestartBudget

_ERRORS_KEPT = 20


class ReceiverState(Enum):
    """Where a receiver is, for the tracker."""

    INACTIVE = "inactive"
    SCHEDULED = "scheduled"
    ACTIVE = "active"


@define
class TrackedReceiver:
    """One receiver.

    Attributes:
        stream_id: of its input stream.
        receiver: as the program made it.
        backoff: of its relaunches.
        budget: of them.
        info: as listeners see it.
        state: where it is.
        epoch: the number of its last launch.
        launched_ms: when that was, on the monotonic clock.
        launch: that launch.
        line: to the launch at hand, once it has registered; ``None`` when its job has ended.
        place: where the launch is, or was, that registered last.
        location: the same, with the executor, as Spark says it.
        preferred: the host it would like to run on, when it was launched last.
        candidates: where it was scheduled to run; none once it has registered.
        refused_places: how often in a row it came up somewhere else, and was sent away.
        sent_away: the launch at hand was.
        moving: it was told to stop so that it comes up elsewhere.
        is_to_keep: it was told then to serve its blocks still.
        rate: wanted, records/s; outlives launches.
        error_reported: the launch at hand has told of the error that ends it already.
        last_report: the traceback of the last error that it has gone on from since it was started.
        failure_counted: it has failed since it was started or launched last.
        registered: the launch at hand has registered: from then on it may hold records.
        deregistered: it has said since that it stops: an end without a word is a death.
        ended: set once the launch at hand takes nothing more, and all that it took is reported.
        overdue: it has not registered in time, and was told of.
    """

    stream_id: int
    receiver: Receiver[Any]
    backoff: Backoff
    budget: RestartBudget
    info: ReceiverInfo = field(init=False)
    state: ReceiverState = ReceiverState.INACTIVE
    epoch: int = 0
    launched_ms: float = 0
    launch: ReceiverLaunch | None = None
    line: Line | None = None
    place: Place = Factory(Place)
    location: TaskLocation | None = None
    preferred: str | None = None
    candidates: tuple[TaskLocation, ...] = ()
    refused_places: int = 0
    sent_away: bool = False
    moving: bool = False
    is_to_keep: bool = False
    rate: float | None = None
    error_reported: bool = False
    last_report: str = ""
    failure_counted: bool = False
    registered: bool = False
    deregistered: bool = False
    ended: threading.Event = Factory(threading.Event)
    overdue: bool = False

    def __attrs_post_init__(self) -> None:
        name = f"{type(self.receiver).__name__}-{self.stream_id}"
        self.info = ReceiverInfo(self.stream_id, name, active=False, location="", executorId="")

    @property
    def is_active(self) -> bool:
        """Whether it is registered now."""
        return self.state is ReceiverState.ACTIVE

    @property
    def given_up(self) -> bool:
        """Whether it is not started again."""
        return self.info.given_up

    def stop(self) -> None:
        """Give the connection up."""
        if self.line is not None:
            self.line.stop()

    def begin_launch(self, now_ms: float) -> int:
        """Begin a new launch and return its number."""
        self.epoch += 1
        self.state = ReceiverState.SCHEDULED
        self.launched_ms = now_ms
        self.error_reported = self.failure_counted = self.registered = self.deregistered = self.overdue = False
        self.sent_away = self.moving = self.is_to_keep = False
        self.last_report = ""
        self.ended.clear()
        return self.epoch

    def connect(self, line: Line) -> None:
        """Take the line to the launch that has registered."""
        self.disconnect()
        self.line, self.place = line, line.place

    def disconnect(self) -> None:
        """The launch at hand is no more."""
        if self.line is not None:
            self.line.hang_up()
            self.line = None

    def note_error(self, message: str, error: str, now_ms: int) -> None:
        """Keep what went wrong, for listeners."""
        recent = (*self.info.recent_errors, PastError(now_ms, message, error))[-_ERRORS_KEPT:]
        self.info = evolve(
            self.info, lastErrorMessage=message, lastError=error, lastErrorTime=now_ms, recent_errors=recent
        )

    def note_end(self, message: str) -> None:
        """Keep why it stopped, when that was no error."""
        self.info = evolve(self.info, lastErrorMessage=message, lastError="")

    def tell(self, message: object, undelivered: Callable[[], None] = lambda: None, *, at_once: bool = False) -> None:
        """Send a message to the launch at hand, if it has registered; as ``Line.tell``."""
        if self.line is not None:
            self.line.tell(message, undelivered, at_once=at_once)

    def order(self, message: object, undelivered: Callable[[], None]) -> None:
        """Send an order to the launch at hand, if it has registered; as ``Line.order``."""
        if self.line is not None:
            self.line.order(message, undelivered)
