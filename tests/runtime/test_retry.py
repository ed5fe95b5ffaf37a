"""``Backoff`` and ``retry``: the delays, and when an attempt is the last."""

import math
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings, strategies as st

from penstock.runtime.retry import Backoff, retry
from penstock_testing import ManualClock


class _NoJitter(random.Random):
    """Each delay is its nominal length."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Flaky:
    """Fails a number of times, then returns its count of attempts."""

    def __init__(self, failures: float, error: type[BaseException] = OSError) -> None:
        self.failures = failures
        self.error = error
        self.attempts = 0

    def __call__(self) -> int:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise self.error(f"attempt {self.attempts}")
        return self.attempts


class SelfMovingClock(ManualClock):
    """Every wait passes at once, on the clock."""

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        if not cancelled.is_set():
            self.advance(math.ceil(duration_ms))


def backoff() -> Backoff:
    return Backoff(100, 1000, _NoJitter())


def test_delays_double_up_to_the_maximum() -> None:
    delays = backoff()
    assert [delays.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_reset_starts_over_from_the_first_delay() -> None:
    delays = backoff()
    assert [delays.next_ms() for _ in range(3)] == [100, 200, 400]
    assert delays.failures == 3
    delays.reset()
    assert delays.failures == 0
    assert delays.next_ms() == 100


@given(
    first=st.floats(0, 1e6),
    longest=st.floats(0, 1e9),
    seed=st.integers(0, 1000),
    failures=st.integers(0, 50),
)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_delay_is_between_half_and_all_of_its_nominal_length(
    first: float, longest: float, seed: int, failures: int
) -> None:
    delays = Backoff(first, longest, random.Random(seed))
    *_, last = [delays.next_ms() for _ in range(failures + 1)]
    nominal = min(first * 2**failures, longest)
    assert nominal / 2 <= last <= nominal
    assert delays.failures == failures + 1


def test_ten_thousand_failures_do_not_overflow() -> None:
    delays = Backoff(1, 1e12, _NoJitter())
    assert [delays.next_ms() for _ in range(10_000)][-1] == 1e12


def test_two_backoffs_do_not_retry_in_step() -> None:
    one, other = Backoff(100, 10_000), Backoff(100, 10_000)
    assert [one.next_ms() for _ in range(10)] != [other.next_ms() for _ in range(10)]


@pytest.mark.parametrize("seed", range(3))
def test_same_seed_gives_the_same_delays(seed: int) -> None:
    one, other = (Backoff(100, 10_000, random.Random(seed)) for _ in range(2))
    assert [one.next_ms() for _ in range(10)] == [other.next_ms() for _ in range(10)]


def test_action_is_retried_with_backoff_until_it_returns() -> None:
    clock, retried = SelfMovingClock(), list[tuple[str, float]]()
    action = Flaky(3)
    assert retry(action, backoff(), clock=clock, on_retry=lambda error, ms: retried.append((str(error), ms))) == 4
    assert retried == [("attempt 1", 100), ("attempt 2", 200), ("attempt 3", 400)]
    assert clock.now_ms() == 700


def test_last_error_is_raised_after_all_retries() -> None:
    action = Flaky(math.inf)
    with pytest.raises(OSError, match="attempt 3"):
        retry(action, backoff(), retries=2, clock=SelfMovingClock())
    assert action.attempts == 3


def test_no_retry_means_one_attempt() -> None:
    action = Flaky(math.inf)
    with pytest.raises(OSError, match="attempt 1"):
        retry(action, backoff(), retries=0, clock=SelfMovingClock())


def test_no_attempt_starts_after_the_timeout() -> None:
    clock, action = SelfMovingClock(), Flaky(math.inf)
    # 100 + 200 + 400 fit, 800 more do not.
    with pytest.raises(OSError, match="attempt 4"):
        retry(action, backoff(), timeout_ms=1499, clock=clock)
    assert clock.now_ms() == 700


def test_other_errors_are_raised_at_once() -> None:
    action = Flaky(math.inf, ValueError)
    with pytest.raises(ValueError, match="attempt 1"):
        retry(action, backoff(), retry_if=lambda error: isinstance(error, OSError), clock=SelfMovingClock())


def test_interrupt_is_not_retried() -> None:
    action = Flaky(math.inf, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        retry(action, backoff(), clock=SelfMovingClock())
    assert action.attempts == 1


def test_stop_ends_the_wait_and_raises_the_last_error() -> None:
    clock, stop, action = ManualClock(), threading.Event(), Flaky(math.inf)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(retry, action, backoff(), clock=clock, stop=stop)
        clock.await_waiters()
        clock.advance(100)
        clock.await_waiters()
        stop.set()
        clock.wake()
        with pytest.raises(OSError, match="attempt 2"):
            result.result(10)


def test_set_stop_means_one_attempt() -> None:
    stop, action = threading.Event(), Flaky(math.inf)
    stop.set()
    with pytest.raises(OSError, match="attempt 1"):
        retry(action, backoff(), clock=ManualClock(), stop=stop)
