"""The transitions that a receiver can make on the driver, found by giving every event to every record reached."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from attrs import evolve

from penstock.conf import Settings
from penstock.listen.events import SourceStatus
from penstock.receive.messages import DeregisterReceiver, RegisterReceiver, ReportError, StopReceiver
from penstock.receive.relaunch_policy import RelaunchPolicy
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_tracking_info as lifecycle
from penstock.track.receiver_tracking_info import ReceiverTrackingInfo
from penstock.track.relaunch_lifecycle import step

_HERE, _THERE = TaskLocation("host-a", "1"), TaskLocation("host-b", "2")
# Every step is later than the launch timeout and within the restart window.
_STEP_MS, _WINDOW_MS = 10_000, 10**9


def _events(epoch: int) -> Iterator[lifecycle.LifecycleEvent]:
    yield lifecycle.LaunchDue((_HERE,))
    yield lifecycle.LaunchFailed("no preferred location")
    for location in (_HERE, _THERE):
        yield lifecycle.Registration(RegisterReceiver(0, epoch, "Silent", 1), location)
    for error in ("", "Traceback"):
        yield ReportError(0, epoch, "lost", error)
        yield lifecycle.JobEnded(epoch, error)
        for ended in (False, True):
            yield DeregisterReceiver(0, epoch, "done", error, ended=ended)
    for reason in ("moves to another executor", "Stopped by driver"):
        yield lifecycle.Undelivered(epoch, StopReceiver(reason))
    for serve_ms in (0, 1000):
        yield lifecycle.Move(serve_ms)
        yield lifecycle.Stop(serve_ms)
    yield lifecycle.RateLimit(10.0)
    yield lifecycle.Pause("backlog", True)
    yield lifecycle.ProblemFound("blocks are lost", 1, 1)
    yield lifecycle.StatusReported(epoch, SourceStatus(1))
    yield lifecycle.Tick()
    yield lifecycle.ExecutorLost()


def _essence(record: ReceiverTrackingInfo) -> object:
    """What decides the next state: records that agree in it are explored once."""
    launch = record.launch
    serves, is_lost = launch is not None and launch.serve_ms > 0, launch is not None and launch.executor_lost
    failures = len(record.failures_ms), record.policy.settings.max_receiver_failures
    return type(record.state), serves, is_lost, record.refusals, *failures


def relaunch_transitions() -> set[tuple[str, str]]:
    """The names of the states before and after each step that changes the state."""
    found: set[tuple[str, str]] = set()
    settings = evolve(
        Settings.parse({}),
        receiver_failure_window_ms=_WINDOW_MS,
        on_receiver_failure="stop-stream",
        launch_timeout_ms=5000,
    )
    policies = [RelaunchPolicy(evolve(settings, max_receiver_failures=most)) for most in (0, 1)]
    reached = [ReceiverTrackingInfo(0, "Silent-0", policy) for policy in policies]
    times_ms = itertools.count(0, _STEP_MS)
    known = {_essence(record) for record in reached}
    while reached:
        record = reached.pop()
        for event in _events(record.epoch):
            after, _effects = step(record, event, next(times_ms), 0)
            if type(after.state) is not type(record.state):
                found.add((type(record.state).__name__, type(after.state).__name__))
            if _essence(after) not in known:
                known.add(_essence(after))
                reached.append(after)
    return found
