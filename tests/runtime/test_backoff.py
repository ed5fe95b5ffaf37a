"""``Backoff``: how long to wait before trying again."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.backoff import Backoff


class _Longest(random.Random):
    """No jitter: each delay is its nominal length."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(100, 1000, _Longest())
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_success_starts_again_from_the_first() -> None:
    backoff = Backoff(100, 1000, _Longest())
    assert [backoff.next_ms() for _ in range(3)] == [100, 200, 400]
    assert backoff.failures == 3
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_ms() == 100


@given(
    first=st.floats(0, 1e6),
    longest=st.floats(0, 1e9),
    seed=st.integers(0, 1000),
    failures=st.integers(0, 50),
)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_a_delay_is_between_half_and_all_of_its_nominal_length(
    first: float, longest: float, seed: int, failures: int
) -> None:
    backoff = Backoff(first, longest, random.Random(seed))
    delays = [backoff.next_ms() for _ in range(failures + 1)]
    nominal = min(first * 2**failures, longest)
    assert nominal / 2 <= delays[-1] <= nominal
    assert backoff.failures == failures + 1


def test_ten_thousand_failures_do_not_overflow() -> None:
    backoff = Backoff(1, 1e12, _Longest())
    assert [backoff.next_ms() for _ in range(10_000)][-1] == 1e12


def test_two_of_them_do_not_retry_in_step() -> None:
    one, other = Backoff(100, 10_000), Backoff(100, 10_000)
    assert [one.next_ms() for _ in range(10)] != [other.next_ms() for _ in range(10)]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_delays(seed: int) -> None:
    one, other = (Backoff(100, 10_000, random.Random(seed)) for _ in range(2))
    assert [one.next_ms() for _ in range(10)] == [other.next_ms() for _ in range(10)]
