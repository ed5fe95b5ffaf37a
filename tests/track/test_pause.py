"""The tracker tells every receiver to pause and to go on, those that come later or were out of reach too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Receiver
from penstock.errors import WireError
from penstock.receive.messages import PauseReceiver
from penstock.runtime.clock import ManualClock
from penstock.track.intake import TrackedIntake

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]


def test_all_receivers_are_told(make_tracker: MakeTracker, silent: type[Receiver[Any]]) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    processes = [tracked.registered(1), tracked.registered(2)]
    intake = TrackedIntake(tracked.tracker, 1000)
    intake.pause(True)
    for process in processes:
        assert process.told.await_one(PauseReceiver).paused
    intake.pause(False)
    for process in processes:
        assert not process.told.await_one(PauseReceiver, 2).paused


def test_a_receiver_learns_it_when_it_registers(tracked: Tracked) -> None:
    tracked.tracker.pause(True)
    process = tracked.process()
    assert process.register().paused
    assert process.told.entries == []
    tracked.tracker.pause(False)
    assert not process.told.await_one(PauseReceiver).paused


def test_one_that_is_launched_again_is_paused_too(tracked: Tracked) -> None:
    first = tracked.registered()
    tracked.tracker.pause(True)
    first.told.await_one(PauseReceiver)
    first.launch.end(RuntimeError("died"))
    tracked.relaunch()
    assert tracked.process(2).register().paused
    tracked.tracker.pause(False)
    assert not tracked.processes[-1].register().paused


def test_a_receiver_that_was_not_reached_is_told_again(
    tracked: Tracked, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = tracked.registered()
    (receiver,) = tracked.tracker._tracked.values()
    assert receiver.line is not None
    ask, failing = receiver.line.client.ask, [True, True]

    def sometimes(message: object, reply_kind: type[Any]) -> Any:
        if isinstance(message, PauseReceiver) and failing:
            failing.pop()
            raise WireError("no way")
        return ask(message, reply_kind)

    monkeypatch.setattr(receiver.line.client, "ask", sometimes)
    tracked.tracker.pause(True)
    tracked.await_waiters()
    # What counts is what is wanted when it is told.
    tracked.tracker.pause(False)
    while failing:
        threading.Event().wait(0.001)
    clock.advance(1000)
    assert not process.told.await_one(PauseReceiver).paused
    assert not any(told.paused for told in process.told.entries)


def test_nobody_is_told_anything_behind_a_stop(tracked: Tracked) -> None:
    process = tracked.registered()
    tracked.tracker._stopping.set()
    tracked.tracker.pause(True)
    tracked.settle()
    assert process.told.names == []
    tracked.tracker._stopping.clear()
