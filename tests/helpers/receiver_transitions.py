"""The transitions that a running receiver can make, explored by giving every event to every record reached."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from attrs import evolve

from penstock.conf import Settings
from penstock.receive import running_receiver as events
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.receiver_lifecycle import step
from penstock.receive.running_receiver import RunningReceiver, new_receiver

_ERROR = OSError("reset by peer")
# Every step is later than both timeouts.
_STEP_MS = 10_000
_SETTINGS = evolve(Settings.parse({}), start_timeout_ms=5000, stop_timeout_ms=5000)


def _events() -> Iterator[events.Event]:
    yield events.StartRequested()
    yield events.RegistrationAnswered()
    yield events.RegistrationAnswered(_ERROR)
    for error in (None, _ERROR):
        yield events.RestartRequested("again", error)
        yield events.StopRequested("enough", error)
    yield events.ThreadFailed("reader", _ERROR)
    yield events.CallReturned(_ERROR)
    for in_time in (True, False):
        yield events.CallReturned(in_time=in_time)
        yield events.Deregistered(in_time)
    yield events.Flushed()
    yield events.RestartDelayOver()
    yield events.Tick()
    yield UpdateRateLimit(10.0, 1, True)
    yield events.DiskWait(_ERROR)
    yield events.DiskWait()
    yield events.BlocksAccepted(1)
    yield events.Report("lost", _ERROR)


def _essence(receiver: RunningReceiver) -> object:
    """What decides the next state: records that agree in it are explored once."""
    state = receiver.state
    flags = [getattr(state, name, None) for name in ("is_final", "calls_on_drained", "is_overdue")]
    then = type(getattr(state, "then", None)).__name__
    return type(state), then, *flags, receiver.is_registered, receiver.stored_records > 0


def receiver_transitions() -> set[tuple[str, str]]:
    """The names of the states before and after each step that changes the state."""
    transitions: set[tuple[str, str]] = set()
    reached = [new_receiver(0, _SETTINGS)]
    times_ms = itertools.count(0, _STEP_MS)
    explored = {_essence(receiver) for receiver in reached}
    while reached:
        receiver = reached.pop()
        for event in _events():
            after, _effects = step(receiver, event, next(times_ms))
            if type(after.state) is not type(receiver.state):
                transitions.add((type(receiver.state).__name__, type(after.state).__name__))
            if _essence(after) not in explored:
                explored.add(_essence(after))
                reached.append(after)
    return transitions
