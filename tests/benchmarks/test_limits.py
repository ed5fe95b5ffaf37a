"""The measurement of rate limits: what a window permits, and which window is the fullest."""

from __future__ import annotations

import pytest
from benchmarks.limits import Window, fullest, permitted, simulated


@pytest.mark.parametrize(
    ("start_s", "most"),
    [
        (0, 10 * 100 + 20),
        (15, 5 * 100 + 5 * 10 + 20),
        # The higher limit ends when the window begins: its burst may pass then.
        (20, 10 * 10 + 20),
        (21, 10 * 10 + 2),
    ],
)
def test_window_permits_rate_times_time_and_a_burst(start_s: float, most: float) -> None:
    assert permitted([(0, 100), (20, 10)], start_s) == pytest.approx(most)


def test_slow_receiver_may_store_one_record_at_once() -> None:
    assert permitted([(0, 0.5)], 0) == pytest.approx(5 + 1)


def test_fullest_window_is_found_wherever_it_begins() -> None:
    stored = [(0.0, 10), (4.0, 50), (13.0, 61), (14.5, 1)]
    found = fullest(stored, [(0, 10)])
    assert found == Window(4.0, 111, 102.0)
    assert found.is_exceeded
    assert not fullest(stored[:2], [(0, 10)]).is_exceeded


def test_simulated_receiver_uses_its_limit_and_does_not_exceed_it() -> None:
    window, records, limits = simulated(seed=1, duration_s=60)
    assert (records > 1000, limits > 3) == (True, True)
    assert 0.9 < window.part <= 1 + 1e-9
