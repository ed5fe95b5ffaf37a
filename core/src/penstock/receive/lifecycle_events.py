"""The events of a running receiver's life cycle, and the effects that follow from them.

A desired state, ``UpdateRateLimit``, is an event; ``Report`` is both.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from penstock.receive.messages import UpdateRateLimit

# -- events: the receiver and its owner --


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
