"""What a receiver's task knows of the receiver: its record and the states of its runs.

Values only; ``restart_lifecycle.step`` alone derives a new record from an old one. The states::

    Created ──> Registering ──> Starting ──> Receiving ──> Stopping ──> Flushing ──> Draining ──> Deregistering
                     ^              └──> Interrupted ─────────^                                     │     │
                     └─────────────────────────────── AwaitingRestart <──── restart ────────────────┘     │
                                                      Terminated <───────── stop ─────────────────────────┘

A restart calls ``onStop`` and ``onStart`` of the same instance in the same task. A relaunch is a new task: the driver
decides on it (``track.relaunch_lifecycle``), and this record never sees it.
"""

from __future__ import annotations

import math
import random

from attrs import frozen

from penstock.conf import Settings
from penstock.rate.rate_limits import lowest
from penstock.runtime.retry import delay_ms_after

# -- why a run ends --


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

    stop: Stop | None = None


@frozen
class Starting:
    """``onStart`` runs.

    Attributes:
        began_ms: when it was called, monotonic.
        stored_before: records stored before that.
        notifies_rate: the registration changed the rate limit; ``on_rate_change`` follows ``onStart``.
        is_overdue: the start timeout has passed and was reported.
    """

    began_ms: float
    stored_before: int
    notifies_rate: bool = False
    is_overdue: bool = False


@frozen
class Interrupted:
    """``onStart`` runs, and its stores fail, so that it ends: a restart or stop was requested meanwhile.

    Attributes:
        start: the state that was interrupted.
        deadline_ms: when a stop abandons ``onStart``, monotonic.
    """

    then: Restart | Stop
    start: Starting
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
    """The buffered records are stored and reported.

    Attributes:
        is_final: no further record is accepted; only before the end.
        calls_on_drained: ``on_drained`` follows, because ``onStop`` has returned.
    """

    then: Restart | Stop
    is_final: bool
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


_Ending = Stopping | Flushing | Draining | Deregistering
State = Created | Registering | Starting | Interrupted | Receiving | _Ending | AwaitingRestart | Terminated


@frozen
class RestartPolicy:
    """The configuration of a receiver's restarts, and of the calls of its methods.

    Attributes:
        delay_ms: delay before the first restart.
        max_delay_ms: maximum delay.
        start_timeout_ms: timeout of ``onStart``; 0 for none.
        stop_timeout_ms: timeout of ``onStop`` and ``on_drained``, and of an interrupted ``onStart``; 0 for none.
        initial_rate: records/s before the first desired state; ``None`` for no limit.
        max_rate: records/s that no desired state exceeds; ``None`` for no limit.
    """

    delay_ms: int
    max_delay_ms: int
    start_timeout_ms: int
    stop_timeout_ms: int
    initial_rate: float | None
    max_rate: float | None

    @classmethod
    def of(cls, settings: Settings) -> RestartPolicy:
        """Return the configured policy."""
        return cls(
            delay_ms=settings.receiver_restart_delay_ms,
            max_delay_ms=settings.max_relaunch_delay_ms,
            start_timeout_ms=settings.start_timeout_ms,
            stop_timeout_ms=settings.stop_timeout_ms,
            initial_rate=settings.initial_rate_per_s,
            max_rate=settings.max_rate_per_s,
        )

    def back_off_ms(self, restarts: int, seed: str) -> float:
        """Return the delay before a restart: it doubles with each restart until a block is accepted.

        Args:
            restarts: restarts since a block was accepted.
            seed: seeds the jitter.
        """
        return delay_ms_after(restarts, self.delay_ms, self.max_delay_ms, random.Random(seed))


@frozen
class RunningReceiver:
    """All that a receiver's task knows of the receiver.

    Attributes:
        stream_id: id of the input stream.
        policy: the timeouts, the delays of restarts and the maximum rate.
        rate: records/s in force, ``None`` for no limit.
        state: position in the life cycle.
        is_registered: the driver has accepted this launch once.
        start_error: the error that ``onStart`` raised.
        stored_records: records stored and accepted.
        restarts: restarts with the default delay since a block was accepted: the exponent of the restart back-off.
        desired_number: number of the last desired state that was applied.
        is_paused: the driver pauses the receiver.
        disk_waits: blocks that wait for disk space; the receiver pauses while there are any.
        jitter_seed: seeds the jitter of restart delays; differs between receivers, so that they do not restart in step.
    """

    stream_id: int
    policy: RestartPolicy
    rate: float | None
    state: State = Created()
    is_registered: bool = False
    start_error: BaseException | None = None
    stored_records: int = 0
    restarts: int = 0
    desired_number: int = 0
    is_paused: bool = False
    disk_waits: int = 0
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
    def is_held(self) -> bool:
        """Whether every store waits: the driver pauses the receiver, or the disk is full."""
        return self.is_paused or self.disk_waits > 0

    @property
    def deadline_ms(self) -> float | None:
        """When a stop abandons ``onStart``, monotonic; ``None`` if none waits for it, or has no timeout."""
        state = self.state
        return state.deadline_ms if isinstance(state, Interrupted) and math.isfinite(state.deadline_ms) else None


def new_receiver(stream_id: int, policy: RestartPolicy, jitter_seed: str = "") -> RunningReceiver:
    """The record of a receiver that was not started."""
    return RunningReceiver(stream_id, policy, lowest(policy.initial_rate, policy.max_rate), jitter_seed=jitter_seed)
