"""``TrackedReceiver``: what the tracker knows of one receiver, and the way to tell it something.

Owns the receiver's state on the driver, changed on the tracker's loop only, and its outbox: messages are sent on the
outbox's own thread, so that a receiver which takes its time to answer holds up no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Any

from attrs import Factory, define, evolve, field, frozen

from penstock.backoff import Backoff
from penstock.errors import WireError
from penstock.event_loop import EventLoop
from penstock.listen.events import PastError, ReceiverInfo
from penstock.log import get_logger
from penstock.receive.receiver import Receiver
from penstock.spark.cluster import TaskLocation
from penstock.threads import EngineThread
from penstock.track.receiver_launcher import ReceiverLaunch
from penstock.track.restart_budget import RestartBudget
from penstock.wire.client import Client
from penstock.wire.messages import Reply

log = get_logger("receiver_tracker")

_ERRORS_KEPT = 20


class ReceiverState(Enum):
    """Where a receiver is, for the tracker."""

    INACTIVE = "inactive"
    SCHEDULED = "scheduled"
    ACTIVE = "active"


@frozen
class Place:
    """Where a receiver runs.

    Attributes:
        host: as Spark names it, for the placing of tasks; empty while Spark does not say.
        address: on which its endpoint listens.
    """

    host: str = ""
    address: str = ""


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
        client: to the endpoint that registered last.
        place: where that runs.
        location: the same, with the executor, as Spark says it.
        preferred: the host it would like to run on, when it was launched last.
        candidates: where it was scheduled to run.
        refused_places: how often in a row it came up somewhere else, and was sent away.
        sent_away: the launch at hand was.
        moving: it was told to stop so that it comes up elsewhere.
        rate: wanted, records/s; outlives launches.
        error_reported: the launch at hand has told of the error that ends it already.
        last_report: the traceback of the last error that it has gone on from since it was started.
        failure_counted: it has failed since it was started or launched last.
        registered: the launch at hand has registered: from then on it may hold records.
        deregistered: it has said since that it stops: an end without a word is a death.
        ended: set once the launch at hand takes nothing more, and all that it took is reported.
        overdue: it has not registered in time, and was told of.
        leftovers: blocks to delete whose host has no endpoint now.
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
    client: Client | None = None
    place: Place = Place()
    location: TaskLocation | None = None
    preferred: str | None = None
    candidates: tuple[TaskLocation, ...] = ()
    refused_places: int = 0
    sent_away: bool = False
    moving: bool = False
    rate: float | None = None
    error_reported: bool = False
    last_report: str = ""
    failure_counted: bool = False
    registered: bool = False
    deregistered: bool = False
    ended: threading.Event = Factory(threading.Event)
    overdue: bool = False
    leftovers: list[str] = Factory(list)
    _outbox: EventLoop[Callable[[], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        name = f"{type(self.receiver).__name__}-{self.stream_id}"
        self.info = ReceiverInfo(self.stream_id, name, active=False, location="", executorId="")
        self._outbox = EventLoop(f"ReceiverTracker to {self.stream_id}", lambda send: send(), self._on_error)

    @property
    def is_active(self) -> bool:
        """Whether it is registered now."""
        return self.state is ReceiverState.ACTIVE

    @property
    def given_up(self) -> bool:
        """Whether it is not started again."""
        return self.info.given_up

    def start(self) -> None:
        """Start the outbox."""
        self._outbox.start()

    def stop(self) -> None:
        """Stop the outbox and give the connection up."""
        self._outbox.stop(1.0)
        if self.client is not None:
            self.client.close()

    def begin_launch(self, now_ms: float) -> int:
        """Begin a new launch and return its number."""
        self.epoch += 1
        self.state = ReceiverState.SCHEDULED
        self.launched_ms = now_ms
        self.error_reported = self.failure_counted = self.registered = self.deregistered = self.overdue = False
        self.sent_away, self.moving, self.last_report = False, False, ""
        self.ended.clear()
        return self.epoch

    def connect(self, client: Client) -> None:
        """Take the connection to the endpoint that has registered; the one before is given up behind what it sends."""
        if self.client is not None:
            self._outbox.post(self.client.close)
        self.client = client

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
        """Send a message; returns at once.

        Args:
            message: to send.
            undelivered: called, on the sending thread, when it could not be.
            at_once: overtake what the receiver has not answered yet.
        """
        client = self.client

        def send() -> None:
            try:
                if client is not None:
                    client.ask(message, Reply)
            except WireError as error:
                name = type(message).__name__
                log.warning("receiver not reached", stream_id=self.stream_id, message=name, error=str(error))
                undelivered()

        if at_once:
            EngineThread(f"ReceiverTracker to {self.stream_id}, at once", send).start()
        else:
            self._outbox.post(send)

    def _on_error(self, error: BaseException) -> None:
        log.error("receiver not told", stream_id=self.stream_id, exc_info=error)
