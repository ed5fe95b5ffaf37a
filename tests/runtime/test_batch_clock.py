"""``BatchClock`` and ``RecurringTimer`` when the wall clock steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from penstock.runtime.batch_clock import BatchClock, log_step
from penstock.runtime.clock import Clock
from penstock.runtime.recurring_timer import RecurringTimer
from penstock_testing import ManualClock

PERIOD_MS = 100
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Stepping:
    """A timer on a batch clock, on a manual clock that starts at 1,000 ms."""

    def __init__(self) -> None:
        self.manual = ManualClock(1000)
        self.steps: list[tuple[int, int]] = []
        self.fired: list[int] = []
        self.missed: list[int] = []
        errors: list[BaseException] = []
        self.clock = BatchClock(self.manual, lambda step_ms, ahead_ms: self.steps.append((step_ms, ahead_ms)))
        self.timer = RecurringTimer(
            self.clock, PERIOD_MS, self.fired.append, "test", errors.append, on_missed=self.missed.append
        )
        self.timer.start(self.timer.start_time_ms())

    def advance(self, duration_ms: int = PERIOD_MS) -> None:
        self.manual.await_waiters()
        self.manual.advance(duration_ms)
        # Once the timer waits again, all due ticks have fired.
        self.manual.await_waiters()


@pytest.fixture
def stepping() -> Iterator[Stepping]:
    stepping = Stepping()
    yield stepping
    stepping.timer.stop(interrupt=True)


@pytest.mark.parametrize("back_ms", [1000, HOUR_MS, DAY_MS])
def test_ticks_continue_in_sequence_after_a_step_back(stepping: Stepping, back_ms: int) -> None:
    stepping.advance()
    stepping.manual.step(-back_ms)
    stepping.advance()
    stepping.advance()
    assert stepping.fired == [1100, 1200, 1300]
    assert stepping.steps == [(-back_ms, back_ms)]
    assert stepping.clock.jumped_ms == 0
    assert stepping.missed == []


@pytest.mark.parametrize("forward_ms", [1000, HOUR_MS, DAY_MS])
def test_the_next_tick_is_the_first_one_after_a_step_forward(stepping: Stepping, forward_ms: int) -> None:
    stepping.advance()
    stepping.manual.step(forward_ms + 30)
    stepping.advance()
    stepping.advance()
    assert stepping.fired == [1100, 1200 + forward_ms, 1300 + forward_ms]
    assert stepping.steps == [(forward_ms + 30, 0)]
    assert stepping.clock.jumped_ms == forward_ms + 30
    assert stepping.missed == []


def test_a_corrected_clock_skips_no_tick(stepping: Stepping) -> None:
    for step_ms in (-HOUR_MS, HOUR_MS):
        stepping.advance()
        stepping.manual.step(step_ms)
    stepping.advance()
    assert stepping.fired == [1100, 1200, 1300]
    assert stepping.steps == [(-HOUR_MS, HOUR_MS), (HOUR_MS, 0)]


def test_a_lead_is_used_up_before_the_clock_jumps(stepping: Stepping) -> None:
    stepping.manual.step(-1000)
    stepping.advance()
    stepping.manual.step(5000)
    stepping.advance()
    assert stepping.fired == [1100, 5200]
    assert stepping.steps == [(-1000, 1000), (5000, 0)]


def test_a_suspended_process_is_no_step(stepping: Stepping) -> None:
    stepping.advance(HOUR_MS)
    assert stepping.fired[-1] == 1000 + HOUR_MS
    assert stepping.missed == [HOUR_MS // PERIOD_MS - 1]
    assert stepping.steps == []


@pytest.mark.parametrize("drift_ms", [-3, 3])
def test_drift_is_followed_without_a_step(stepping: Stepping, drift_ms: int) -> None:
    for _ in range(100):
        stepping.manual.step(drift_ms)
        stepping.advance()
    assert stepping.steps == []
    assert 0 <= stepping.manual.now_ms() - stepping.fired[-1] < PERIOD_MS
    assert stepping.fired == list(range(1100, stepping.fired[-1] + 1, PERIOD_MS))


@pytest.mark.parametrize(("difference_ms", "steps"), [(100, []), (-100, []), (101, [(101, 0)]), (-101, [(-101, 101)])])
def test_only_a_difference_of_more_than_a_tenth_of_a_second_is_a_step(
    stepping: Stepping, difference_ms: int, steps: list[tuple[int, int]]
) -> None:
    stepping.manual.step(difference_ms)
    stepping.clock.now_ms()
    assert stepping.steps == steps


def test_a_graceful_stop_after_a_step_back_takes_at_most_two_periods(stepping: Stepping) -> None:
    stepping.advance()
    stepping.manual.step(-HOUR_MS)
    stepping.advance()
    assert stepping.timer.stop(interrupt=False, timeout_s=0.01) == 1200


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([-DAY_MS, -1000, -20, 0, 20, 1000, DAY_MS]), st.integers(0, 1000))))
def test_no_sequence_of_steps_repeats_or_delays_a_tick(moves: list[tuple[int, int]]) -> None:
    run = Stepping()
    try:
        for step_ms, duration_ms in moves:
            run.manual.step(step_ms)
            run.advance(duration_ms)
        assert run.fired == sorted(set(run.fired))
        assert all(tick % PERIOD_MS == 0 for tick in run.fired)
        before = len(run.fired)
        # The clock may follow a drift.
        run.advance(PERIOD_MS + 20 * (len(moves) + 1))
        assert len(run.fired) > before
        elapsed_ms = run.manual.elapsed_ms()
        assert len(run.fired) <= (elapsed_ms + 20 * len(moves)) // PERIOD_MS + 1
    finally:
        run.timer.stop(interrupt=True)


def test_time_never_goes_back() -> None:
    manual = ManualClock(1000)
    clock = BatchClock(manual)
    times = []
    for step_ms in (-20, -HOUR_MS, 20, HOUR_MS, -50, 0):
        manual.step(step_ms)
        manual.advance(10)
        times.append(clock.now_ms())
    assert times == sorted(times)


def test_a_wall_clock_before_the_epoch_is_followed() -> None:
    manual = ManualClock(0)
    manual.step(-HOUR_MS)
    clock = BatchClock(manual)
    manual.advance(1000)
    assert clock.now_ms() == 1000 - HOUR_MS


def test_running_ahead_is_a_jump() -> None:
    manual = ManualClock(1000)
    clock = BatchClock(manual)
    clock.run_ahead(5000)
    assert (clock.now_ms(), clock.jumped_ms) == (6000, 5000)
    manual.step(7000)
    assert (clock.now_ms(), clock.jumped_ms) == (8000, 7000)


def test_steps_change_neither_the_monotonic_nor_the_elapsed_time() -> None:
    class Asleep(ManualClock):
        def elapsed_ms(self) -> float:
            return super().elapsed_ms() + HOUR_MS

    manual = Asleep(1000)
    clock = BatchClock(manual)
    manual.step(5000)
    clock.run_ahead(5000)
    manual.advance(10)
    assert (clock.monotonic_ms(), clock.elapsed_ms()) == (1010, 1010 + HOUR_MS)


class Suspended(ManualClock):
    """The process is suspended between two readings of the first look."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.pauses = 0

    def now_ms(self) -> int:
        now_ms = super().now_ms()
        if self.pauses:
            self.pauses -= 1
            self.advance(HOUR_MS)
        return now_ms


def test_a_pause_between_two_readings_is_no_step() -> None:
    manual = Suspended()
    steps: list[int] = []
    clock: Clock = BatchClock(manual, lambda step_ms, _ahead_ms: steps.append(step_ms))
    manual.pauses = 2
    assert clock.now_ms() == 1000 + 2 * HOUR_MS
    assert steps == []


@pytest.mark.parametrize(
    ("step_ms", "ahead_ms", "effect"),
    [(-5000, 5000, "continue in sequence, ahead of the wall clock"), (5000, 0, "the first one after the new time")],
)
def test_step_is_logged(caplog: pytest.LogCaptureFixture, step_ms: int, ahead_ms: int, effect: str) -> None:
    log_step(step_ms, ahead_ms)
    assert "wall clock stepped" in caplog.text
    assert f"step_s={step_ms / 1000}" in caplog.text
    assert effect in caplog.text
