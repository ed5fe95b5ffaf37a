"""What goes into the life cycle of a running receiver, events, and what comes out of it, effects."""

from __future__ import annotations

import enum
from typing import Any

from attrs import frozen

from penstock.receive.messages import UpdateRateLimit

# -- events --


@frozen
class StartRequested:
    """Register, and call ``onStart`` if the driver accepts the receiver."""


@frozen
class RegistrationAnswered:
    """The driver has answered the registration.

    Attributes:
        refusal: why the receiver may not start; empty if it may.
        desired: the rate limit and pause that the driver sets; ``None`` where it sets neither.
    """

    refusal: str = ""
    desired: UpdateRateLimit | None = None


@frozen
class RegistrationFailed:
    """The driver did not answer, or the receiver's threads could not be started."""

    error: BaseException


@frozen
class OnStartReturned:
    """``onStart`` has returned, or raised an error."""

    error: BaseException | None = None


@frozen
class RestartRequested:
    """Restart the receiver.

    Attributes:
        message: the reason.
        error: the cause.
        delay_ms: delay of the restart; ``None`` for the back-off.
    """

    message: str
    error: BaseException | None = None
    delay_ms: float | None = None


@frozen
class StopRequested:
    """Stop the receiver for good.

    Attributes:
        message: the reason.
        error: the cause.
    """

    message: str
    error: BaseException | None = None


@frozen
class ThreadFailed:
    """A thread that the receiver started has ended with an error.

    Attributes:
        thread: its name.
        error: the error.
    """

    thread: str
    error: BaseException


@frozen
class CallReturned:
    """``onStop`` or ``on_drained`` has returned or raised an error, or its timeout has passed.

    Attributes:
        error: the error that it raised.
        in_time: false after the timeout.
    """

    error: BaseException | None = None
    in_time: bool = True


@frozen
class Flushed:
    """The buffered records are stored or lost.

    Attributes:
        flushed: records stored since the final flush began.
        dropped: records lost.
    """

    flushed: int = 0
    dropped: int = 0


@frozen
class Deregistered:
    """The driver was notified, or could not be reached.

    Attributes:
        is_delivered: the driver has answered.
    """

    is_delivered: bool


@frozen
class RestartDelayOver:
    """The delay of a restart has passed, or was cut short by a stop."""


@frozen
class Tick:
    """Time has passed: check the deadlines of ``onStart``."""


@frozen
class DesiredState:
    """The driver, or the host, sets rate limit and pause.

    Attributes:
        number: an event with a lower number than one before is outdated and ignored.
        rate: records/s, ``None`` for no limit; zero, a negative number or NaN leaves the rate unchanged.
        paused: hold every store; ``None`` leaves that unchanged.
    """

    number: int
    rate: float | None = 0.0
    paused: bool | None = None


def desired_state(message: UpdateRateLimit) -> DesiredState:
    """The event of a desired state that the driver sent."""
    return DesiredState(message.number, message.rate, message.paused)


@frozen
class DiskFull:
    """A block waits for disk space.

    Attributes:
        error: the file system's error.
    """

    error: BaseException


@frozen
class DiskWaitOver:
    """A block no longer waits for disk space."""


@frozen
class BlocksAccepted:
    """The driver has accepted blocks.

    Attributes:
        records: the number of their records.
    """

    records: int


@frozen
class ErrorOccurred:
    """An error after which the receiver continues.

    Attributes:
        message: one line.
        error: the cause.
    """

    message: str
    error: BaseException | None = None


Event = (
    StartRequested
    | RegistrationAnswered
    | RegistrationFailed
    | OnStartReturned
    | RestartRequested
    | StopRequested
    | ThreadFailed
    | CallReturned
    | Flushed
    | Deregistered
    | RestartDelayOver
    | Tick
    | DesiredState
    | DiskFull
    | DiskWaitOver
    | BlocksAccepted
    | ErrorOccurred
)


# -- effects that return at once; carried out before the next event is handled --


class Intake(enum.Enum):
    """Which records the receiver may store."""

    #: All; a store may wait for the rate limit.
    OPEN = enum.auto()
    #: Those that need not wait: the receiver is stopped, and ``onStop`` may store.
    WITHOUT_WAITING = enum.auto()
    #: None.
    CLOSED = enum.auto()


@frozen
class SetIntake:
    """Accept or refuse records."""

    intake: Intake


@frozen
class SetRate:
    """Apply a rate limit, records/s; ``None`` for none."""

    rate: float | None


@frozen
class SetPause:
    """Hold every store, or hold none."""

    paused: bool


@frozen
class WatchThreads:
    """Watch the threads that the receiver starts from now on, or none any more."""

    watches: bool


@frozen
class EndWaits:
    """End the wait for a restart and the waits for disk space."""


@frozen
class EndAwaitTermination:
    """Release whoever waits for the end of the receiver."""


# -- effects that may take time; most end with an event --


@frozen
class Log:
    """Write a log event.

    Attributes:
        level: name of the logger's method.
        event: the event.
        context: further fields.
    """

    level: str
    event: str
    context: dict[str, Any]


@frozen
class Register:
    """Start the block generator at the first time, and ask the driver whether the receiver may start."""


@frozen
class CallOnStart:
    """Call ``onStart``."""


@frozen
class CallOnStop:
    """Call ``onStop``, and wait for it until the stop timeout."""


@frozen
class Flush:
    """Store and report the buffered records.

    Attributes:
        is_final: then refuse further ones, and wait for stores in progress.
    """

    is_final: bool


@frozen
class CallOnDrained:
    """Call ``on_drained``, and wait for it until the stop timeout."""


@frozen
class Deregister:
    """Notify the driver that the run, or the receiver, has ended.

    Attributes:
        message: the reason.
        error: the cause.
        flushed: buffered records stored by the final flush.
        dropped: buffered records lost.
        ended: the receiver does not restart.
    """

    message: str
    error: BaseException | None
    flushed: int = 0
    dropped: int = 0
    ended: bool = False


@frozen
class AwaitRestart:
    """Wait for the delay of a restart."""

    delay_ms: float


@frozen
class NotifyRate:
    """Call ``on_rate_change``."""


@frozen
class Report:
    """Report an error to the driver.

    Attributes:
        message: one line.
        error: the cause.
    """

    message: str
    error: BaseException | None = None


@frozen
class OnThread:
    """Carry out effects on a thread of their own: the caller must not wait for them.

    Attributes:
        name: of the thread.
        effects: carried out in order.
    """

    name: str
    effects: tuple[Effect, ...]


Effect = (
    SetIntake
    | SetRate
    | SetPause
    | WatchThreads
    | EndWaits
    | EndAwaitTermination
    | Log
    | Register
    | CallOnStart
    | CallOnStop
    | Flush
    | CallOnDrained
    | Deregister
    | AwaitRestart
    | NotifyRate
    | Report
    | OnThread
)
