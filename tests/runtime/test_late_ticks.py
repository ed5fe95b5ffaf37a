"""``RecurringTimer`` that falls behind: each missed tick fires or is skipped, and is reported."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from penstock.runtime.recurring_timer import RecurringTimer
from penstock_testing import ManualClock

PERIOD_MS = 100

pauses = st.lists(st.integers(0, 5 * PERIOD_MS), max_size=8)
no_deadline = settings(deadline=None)


class Run:
    """What a timer fired and reported while its clock was moved by pauses."""

    def __init__(self, moves: list[int], *, skip: bool, slow: list[int] | None = None) -> None:
        self.clock = ManualClock()
        self.fired = list[int]()
        self.missed = list[int]()
        #: When each tick fired.
        self.at: list[int] = []
        self._slow = iter(slow or [])
        errors: list[BaseException] = []
        self.timer = RecurringTimer(
            self.clock, PERIOD_MS, self._tick, "test", errors.append, skip_missed=skip, on_missed=self.missed.append
        )
        self.timer.start(PERIOD_MS)
        for move in moves:
            self.clock.await_waiters()
            self.clock.advance(move)
        # Once the timer waits again, all due ticks have fired.
        self.clock.await_waiters()
        self.last = self.timer.stop(interrupt=True)
        assert errors == []

    def _tick(self, tick: int) -> None:
        self.fired.append(tick)
        self.at.append(self.clock.now_ms())
        self.clock.advance(next(self._slow, 0))


def due(moves: list[int]) -> list[list[int]]:
    """The ticks that each pause makes due."""
    found, now = [], 0
    for move in moves:
        found.append([tick for tick in range(0, now + move + 1, PERIOD_MS) if tick > now])
        now += move
    return found


@no_deadline
@given(pauses)
def test_all_missed_ticks_fire_and_are_reported(moves: list[int]) -> None:
    run = Run(moves, skip=False)
    assert run.fired == [tick for ticks in due(moves) for tick in ticks]
    assert run.missed == [len(ticks) - 1 for ticks in due(moves) if len(ticks) > 1]
    assert run.last == (run.fired[-1] if run.fired else -1)


@no_deadline
@given(pauses)
def test_only_the_last_missed_tick_fires_and_the_others_are_reported_when_skipping(moves: list[int]) -> None:
    run = Run(moves, skip=True)
    assert run.fired == [ticks[-1] for ticks in due(moves) if ticks]
    assert run.missed == [len(ticks) - 1 for ticks in due(moves) if len(ticks) > 1]
    assert run.last == (run.fired[-1] if run.fired else -1)


@no_deadline
@given(pauses, pauses)
def test_slow_callback_loses_no_tick(moves: list[int], slow: list[int]) -> None:
    run = Run(moves, skip=False, slow=slow)
    assert run.fired == list(range(PERIOD_MS, run.clock.now_ms() + 1, PERIOD_MS))


@no_deadline
@given(pauses, pauses)
def test_slow_callback_gets_no_old_tick_when_skipping(moves: list[int], slow: list[int]) -> None:
    run = Run(moves, skip=True, slow=slow)
    assert all(0 <= at - tick < PERIOD_MS for tick, at in zip(run.fired, run.at, strict=True))
    assert all(tick % PERIOD_MS == 0 for tick in run.fired)
    assert run.fired == sorted(set(run.fired))
    assert len(run.fired) + sum(run.missed) == run.clock.now_ms() // PERIOD_MS


@pytest.mark.parametrize("skip", [False, True])
def test_timer_that_keeps_up_reports_no_tick(skip: bool) -> None:
    run = Run([PERIOD_MS] * 5, skip=skip)
    assert run.fired == [100, 200, 300, 400, 500]
    assert run.missed == []
