"""The time budget of a receiver: shares that add up to 1, from reports of its times."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from plugins.ui.tests.conftest import T

from penstock import ReceiverInfo, ReceiverStarted, StoreTimes
from penstock_ui.own_events import Sampled
from penstock_ui.snapshot import Storage
from penstock_ui.store import MetricsStore
from penstock_ui.time_budget import TimeBudget, since, time_budget

ms = st.integers(0, 10**7)


def test_source_has_what_is_neither_a_wait_nor_computed() -> None:
    times = StoreTimes(elapsed=1000, limiter=200, disk=50, driver=30, code=120)
    budget = time_budget(times)
    assert budget is not None
    assert budget.shares == pytest.approx({"source": 0.6, "limiter": 0.2, "disk": 0.05, "driver": 0.03, "code": 0.12})


def test_receiver_that_stored_nothing_waits_for_its_source() -> None:
    assert time_budget(StoreTimes(elapsed=1000)) == TimeBudget(1.0)
    assert time_budget(StoreTimes()) is None


def test_full_buffer_is_a_wait_for_what_empties_it() -> None:
    slow_disk = StoreTimes(elapsed=1000, buffer=800, encoding=50, storing=850, reporting=100, code=100)
    budget = time_budget(slow_disk)
    assert budget is not None
    assert budget.largest == "disk"
    assert budget.shares == pytest.approx({"source": 0.1, "limiter": 0, "disk": 0.68, "driver": 0.08, "code": 0.14})
    assert time_budget(StoreTimes(elapsed=100, buffer=100)) == TimeBudget(0.0, driver=1.0)


@given(ms, ms, ms, ms, ms, ms, ms, ms, ms)
def test_shares_add_up_to_one_whatever_is_reported(
    elapsed: int, limiter: int, buffer: int, disk: int, driver: int, code: int, enc: int, storing: int, reporting: int
) -> None:
    budget = time_budget(StoreTimes(elapsed, limiter, buffer, disk, driver, code, enc, storing, reporting))
    if budget is not None:
        assert sum(budget.shares.values()) == pytest.approx(1)
        assert all(0 <= share <= 1 + 1e-9 for share in budget.shares.values())


def test_period_is_the_difference_of_two_reports_of_one_launch() -> None:
    before, after = StoreTimes(elapsed=5000, limiter=4000), StoreTimes(elapsed=7000, limiter=4500, disk=9)
    assert since(before, after) == StoreTimes(elapsed=2000, limiter=500, disk=9)
    # A relaunched receiver starts at zero.
    assert since(after, StoreTimes(elapsed=100, disk=7)) == StoreTimes(elapsed=100, disk=7)
    assert since(None, after) == after


@pytest.mark.parametrize(("seconds", "share"), [(30, 0.5), (120, 1.0)])
def test_budget_of_a_stream_is_that_of_its_last_minute(seconds: int, share: float) -> None:
    store = MetricsStore()
    store.apply(ReceiverStarted(ReceiverInfo(0, "Receiver-0", True, "host", "1")))
    # It waits for its source, and from second 100 on for the limiter.
    for second in range(0, 100 + seconds, 5):
        times = StoreTimes(elapsed=1000 * second, limiter=max(second - 100, 0) * 1000)
        store.apply(Sampled(T + 1000 * second, Storage(), times={0: times}))
    (stream,) = store.snapshot().streams
    assert stream.budget is not None
    assert stream.budget.limiter == pytest.approx(share, abs=0.1)
