"""The record that a receiver's task keeps of the receiver: its states, and the events and effects of its runs.

Values only; ``receiver_lifecycle.step`` alone derives a new record from an old one. docs/architecture.md has a diagram
of the states. A relaunch is a new task: the driver decides on it (``track.relaunch_lifecycle``).
"""

from __future__ import annotations

import enum
import math
from typing import Any, Literal

from attrs import frozen

from penstock.conf import Settings
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.rate_limiter import lowest

# -- reasons for the end of a run --


@frozen
class Restart:
    """The run ends, and after a delay the next one follows. ``message`` and ``error`` are the reason."""

    message: str
    error: BaseException | None
    delay_ms: float


@frozen
class Stop:
    """The receiver ends for good. ``message`` and ``error`` are the reason; ``task_error`` is to fail the task."""

    message: str
    error: BaseException | None = None
    task_error: BaseException | None = None


# -- states --


@frozen
class Created:
    """The receiver was not started."""


@frozen
class Registering:
    """The driver was asked whether the receiver may start; a stop may be requested meanwhile."""

    then: Stop | None = None


@frozen
class Starting:
    """``onStart`` runs."""

    # Monotonic.
    began_ms: float
    # Number of records that were stored before ``onStart``.
    stored_before: int
    # The registration changed the rate limit: ``on_rate_change`` follows.
    notifies_rate: bool = False
    # The start timeout has passed and was reported.
    is_overdue: bool = False


@frozen
class Interrupted:
    """``onStart`` runs, and its stores fail, so that it ends: a restart or stop was requested meanwhile."""

    then: Restart | Stop
    start: Starting
    # When a stop abandons ``onStart``, monotonic.
    deadline_ms: float = math.inf


@frozen
class Receiving:
    """``onStart`` has returned; the receiver's threads store."""


@frozen
class Stopping:
    """``onStop`` runs, and may store."""

    then: Restart | Stop


@frozen
class Flushing:
    """The buffered records are stored and reported."""

    then: Restart | Stop
    # Whether this is the final flush: no further record is accepted.
    is_final: bool
    # ``onStop`` has returned: ``on_drained`` follows.
    calls_on_drained: bool


@frozen
class Draining:
    """``on_drained`` runs, after a final flush or that of a restart, with the numbers of records flushed and lost."""

    then: Restart | Stop
    is_final: bool
    flushed: int = 0
    dropped: int = 0


@frozen
class Deregistering:
    """The driver is notified of the end of the run, or after a final flush of the end of the receiver."""

    then: Restart | Stop
    is_final: bool


@frozen
class AwaitingRestart:
    """The delay of a restart passes."""


@frozen
class Terminated:
    """Everything that the receiver took is stored or lost. ``error`` is to fail the task."""

    error: BaseException | None = None
    is_deregistered: bool = False


class Intake(enum.Enum):
    """The records that the receiver may store."""

    #: All; a store may wait for the rate limit.
    OPEN = enum.auto()
    #: Only without waiting: the receiver is stopped, and ``onStop`` may store.
    WITHOUT_WAITING = enum.auto()
    CLOSED = enum.auto()


_Ending = Stopping | Flushing | Draining | Deregistering
State = Created | Registering | Starting | Interrupted | Receiving | _Ending | AwaitingRestart | Terminated


@frozen
class RunningReceiver:
    """The state of a receiver in its task."""

    stream_id: int
    settings: Settings
    # Records/s in force, ``None`` for no limit.
    rate: float | None
    state: State = Created()
    # The driver has accepted this launch once.
    is_registered: bool = False
    start_error: BaseException | None = None
    stored_records: int = 0
    # Restarts with the default delay since a block was accepted: the exponent of the back-off.
    restarts: int = 0
    # The number of the last desired state that was applied.
    desired_number: int = 0
    is_paused_by_driver: bool = False
    # Blocks that wait for disk space; the receiver pauses while there are any.
    disk_waits: int = 0
    # Differs between receivers, so that they do not restart in step.
    jitter_seed: str = ""

    @property
    def is_started(self) -> bool:
        """Whether ``onStart`` was called and the receiver was not stopped since."""
        return isinstance(self.state, Starting | Interrupted | Receiving)

    @property
    def is_stopped(self) -> bool:
        """Whether the receiver was stopped, for good or until a restart."""
        if isinstance(self.state, Registering):
            return self.is_registered
        return not isinstance(self.state, Created | Starting | Receiving)

    @property
    def is_ending(self) -> bool:
        """Whether the receiver was stopped for good: no restart and no block with disk space is waited for."""
        return isinstance(self.state, Terminated) or isinstance(getattr(self.state, "then", None), Stop)

    @property
    def intake(self) -> Intake:
        match self.state:
            case Starting() | Receiving():
                return Intake.OPEN
            case Interrupted():
                return Intake.CLOSED
        return Intake.WITHOUT_WAITING

    @property
    def watches_threads(self) -> bool:
        """Whether errors on threads that the receiver starts are its own: from the first run to the end."""
        is_over = isinstance(self.state, Terminated) or (isinstance(self.state, Deregistering) and self.state.is_final)
        return self.is_registered and not is_over

    @property
    def is_paused(self) -> bool:
        """Whether every store waits: the driver pauses the receiver, or the disk is full."""
        return self.is_paused_by_driver or self.disk_waits > 0


def new_receiver(stream_id: int, settings: Settings, jitter_seed: str = "") -> RunningReceiver:
    """The record of a receiver that was not started."""
    rate = lowest(settings.initial_rate_per_s, settings.max_rate_per_s)
    return RunningReceiver(stream_id, settings, rate, jitter_seed=jitter_seed)


# -- events: the receiver and its owner; ``UpdateRateLimit`` is one, ``Report`` is an event and an effect --


@frozen
class StartRequested:
    """Register, and call ``onStart`` if the driver accepts the receiver."""


@frozen
class RestartRequested:
    """Restart the receiver, after the back-off if ``delay_ms`` is ``None``."""

    message: str
    error: BaseException | None = None
    delay_ms: float | None = None


@frozen
class StopRequested:
    """Stop the receiver for good."""

    message: str
    error: BaseException | None = None


@frozen
class ThreadFailed:
    """A thread of this name, which the receiver started, has ended with an error."""

    thread: str
    error: BaseException


@frozen
class Report:
    """Report an error to the driver; the receiver continues."""

    message: str
    error: BaseException | None = None


# -- events: the end of an activity that an effect began --


@frozen
class RegistrationAnswered:
    """The receiver may start with the driver's desired state, if it has one, or may not because of an error."""

    error: BaseException | None = None
    desired: UpdateRateLimit | None = None


@frozen
class CallReturned:
    """``onStart``, ``onStop`` or ``on_drained`` has returned or raised; not ``in_time`` after a timeout of a stop."""

    error: BaseException | None = None
    in_time: bool = True


@frozen
class Flushed:
    """The buffer is empty: the numbers of records stored since the final flush began, and of those lost."""

    flushed: int = 0
    dropped: int = 0


@frozen
class Deregistered:
    """The driver was notified of the end of a run, or could not be reached."""

    is_delivered: bool


@frozen
class RestartDelayOver:
    """The delay of a restart has passed, or was cut short by a stop."""


# -- events: clock, disk, driver --


@frozen
class Tick:
    """Time has passed: check the deadlines of ``onStart``."""


@frozen
class DiskWait:
    """A block waits for disk space because of an error; without one, a block no longer waits."""

    error: BaseException | None = None


@frozen
class BlocksAccepted:
    """The driver has accepted blocks with this many records."""

    records: int


_Request = StartRequested | RestartRequested | StopRequested | ThreadFailed | Report | UpdateRateLimit
_End = RegistrationAnswered | CallReturned | Flushed | Deregistered | RestartDelayOver
Event = _Request | _End | Tick | DiskWait | BlocksAccepted


# -- effects; most begin an activity, whose end is an event --


@frozen
class Register:
    """Ask the driver whether the receiver may start. The first time, start the block generator before."""


@frozen
class Call:
    """Call ``onStart``, ``onStop`` or ``on_drained``; wait for the latter two until the stop timeout."""

    method: Literal["onStart", "onStop", "on_drained"]


@frozen
class Flush:
    """Store and report the buffered records; if final, refuse further ones and wait for stores in progress."""

    is_final: bool


@frozen
class Deregister:
    """Notify the driver of the end of a run, or of the receiver if it ``ended``, with the counts of the final flush."""

    message: str
    error: BaseException | None
    flushed: int = 0
    dropped: int = 0
    ended: bool = False
    restart_delay_ms: float = 0.0


@frozen
class AwaitRestart:
    """Wait for the delay of a restart."""

    delay_ms: float


@frozen
class AwaitDeadline:
    """Wait until a stop abandons ``onStart``, or for the end; a ``Tick`` follows."""

    delay_ms: float


@frozen
class NotifyRate:
    """Call ``on_rate_change``."""


@frozen
class Log:
    """Write a log event with fields; ``level`` is the name of the logger's method."""

    level: str
    event: str
    context: dict[str, Any]


@frozen
class OnThread:
    """Carry out effects on a thread of this name, since the caller must not wait for them."""

    name: str
    effects: tuple[Effect, ...]


_Activity = Register | Call | Flush | Deregister | AwaitRestart
Effect = _Activity | AwaitDeadline | NotifyRate | Report | Log | OnThread
