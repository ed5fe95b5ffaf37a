"""``RecurringTimer``, with the numbers of Spark's RecurringTimerSuite."""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.runtime.recurring_timer import RecurringTimer
from penstock_testing import ManualClock


class Ticks:
    """A timer with a period of 100 ms that records its ticks."""

    def __init__(self, clock: ManualClock) -> None:
        self.fired: list[int] = []
        self.errors: list[BaseException] = []
        self._queue: queue.Queue[int] = queue.Queue()
        self.on_tick: Callable[[int], object] = lambda _tick: None
        self.timer = RecurringTimer(clock, 100, self._tick, "test", self.errors.append)

    def _tick(self, tick: int) -> None:
        try:
            self.on_tick(tick)
        finally:
            self.fired.append(tick)
            self._queue.put(tick)

    def take(self, count: int) -> list[int]:
        """Wait for the next ticks."""
        return [self._queue.get(timeout=10) for _ in range(count)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ticks(clock: ManualClock) -> Iterator[Ticks]:
    ticks = Ticks(clock)
    yield ticks
    ticks.timer.stop(interrupt=True)


def test_timer_ticks_at_the_start_and_then_every_period(clock: ManualClock, ticks: Ticks) -> None:
    ticks.timer.start(0)
    assert ticks.take(1) == [0]
    clock.advance(100)
    assert ticks.take(1) == [100]
    clock.advance(200)
    assert ticks.take(2) == [200, 300]
    assert ticks.timer.stop(interrupt=True) == 300
    assert ticks.fired == [0, 100, 200, 300]


def test_stop_without_interrupt_fires_the_next_two_ticks(
    clock: ManualClock, ticks: Ticks, joining: threading.Event
) -> None:
    ticks.timer.start(0)
    assert ticks.take(1) == [0]
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(ticks.timer.stop, interrupt=False)
        assert joining.wait(10)
        clock.advance(200)
        assert stopping.result(timeout=10) == 200
    clock.advance(1000)
    assert ticks.fired == [0, 100, 200]


def test_stop_without_interrupt_returns_after_its_timeout(clock: ManualClock, ticks: Ticks) -> None:
    ticks.timer.start(0)
    assert ticks.take(1) == [0]
    assert ticks.timer.stop(interrupt=False, timeout_s=0.01) == 0
    clock.advance(1000)
    assert ticks.fired == [0]


def test_late_ticks_fire_back_to_back(clock: ManualClock, ticks: Ticks) -> None:
    clock.advance(1_050)
    ticks.timer.start(0)
    assert ticks.take(11) == list(range(0, 1_100, 100))
    clock.advance(50)
    assert ticks.take(1) == [1_100]


def test_stop_with_interrupt_drops_missed_ticks(clock: ManualClock, ticks: Ticks, joining: threading.Event) -> None:
    entered, gate = threading.Event(), threading.Event()

    def hold(_tick: int) -> None:
        entered.set()
        assert gate.wait(10)

    ticks.on_tick = hold
    ticks.timer.start(0)
    assert entered.wait(10)
    clock.advance(10_000)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(ticks.timer.stop, interrupt=True)
        assert joining.wait(10)
        gate.set()
        assert stopping.result(timeout=10) == 0
    assert ticks.fired == [0]


def test_start_time_is_the_first_multiple_of_the_period_after_now(clock: ManualClock, ticks: Ticks) -> None:
    assert ticks.timer.start_time_ms() == 100
    clock.advance(99)
    assert ticks.timer.start_time_ms() == 100
    clock.advance(1)
    assert ticks.timer.start_time_ms() == 200


def test_tick_carries_its_nominal_time(clock: ManualClock, ticks: Ticks) -> None:
    ticks.timer.start(250)
    clock.advance(333)
    assert ticks.take(1) == [250]
    clock.advance(100)
    assert ticks.take(1) == [350]


def test_callback_error_is_reported_and_the_timer_continues(clock: ManualClock, ticks: Ticks) -> None:
    def fail(tick: int) -> None:
        raise RuntimeError(f"tick {tick}")

    ticks.on_tick = fail
    ticks.timer.start(0)
    clock.advance(100)
    assert ticks.take(2) == [0, 100]
    ticks.timer.stop(interrupt=True)
    assert [str(error) for error in ticks.errors] == ["tick 0", "tick 100"]


def test_last_tick_is_minus_one_when_none_fired(ticks: Ticks) -> None:
    ticks.timer.start(100)
    assert ticks.timer.stop(interrupt=True) == -1


def test_timer_that_never_started_can_be_stopped(ticks: Ticks) -> None:
    assert ticks.timer.stop(interrupt=False) == -1
    assert ticks.timer.stop(interrupt=True) == -1


def test_timer_can_be_stopped_twice(ticks: Ticks) -> None:
    ticks.timer.start(0)
    ticks.take(1)
    assert [ticks.timer.stop(interrupt=True) for _ in range(2)] == [0, 0]


def test_callback_can_stop_its_timer(clock: ManualClock, ticks: Ticks) -> None:
    ticks.on_tick = lambda _tick: ticks.timer.stop(interrupt=True)
    ticks.timer.start(0)
    assert ticks.take(1) == [0]
    clock.advance(1000)
    ticks.timer.stop(interrupt=True)
    assert ticks.fired == [0]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), ValueError("plain")], ids=repr)
def test_no_error_of_any_callback_ends_the_timer(clock: ManualClock, error: BaseException) -> None:
    fired: queue.Queue[int] = queue.Queue()

    def fail(tick: int) -> None:
        fired.put(tick)
        raise error

    def refuse(_error: BaseException) -> None:
        raise error

    def fail_to_count(_count: int) -> None:
        raise error

    timer = RecurringTimer(clock, 100, fail, "test", refuse, on_missed=fail_to_count)
    timer.start(0)
    clock.advance(300)
    assert [fired.get(timeout=10) for _ in range(4)] == [0, 100, 200, 300]
    clock.await_waiters()
    clock.advance(100)
    assert fired.get(timeout=10) == 400
    assert timer.stop(interrupt=True) == 400
