"""The application's maximum rate is divided among its receivers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Receiver
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.rate_limiter import shares

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

MAX_TOTAL_RATE = "spark.penstock.maxTotalRate"
MAX_RATE = "spark.streaming.receiver.maxRate"

Three = Callable[[Mapping[str, str]], "tuple[Tracked, list[FakeProcess]]"]


@pytest.fixture
def three(make_tracker: Callable[..., Tracked], silent: type[Receiver[Any]]) -> Three:
    """A tracker of three receivers with a configuration, and their processes by stream; none is registered yet."""

    def three(conf: Mapping[str, str]) -> tuple[Tracked, list[FakeProcess]]:
        tracked = make_tracker([silent(), silent(), silent()], conf=conf)
        tracked.tracker.start()
        tracked.launch(3)
        processes = [tracked.process(number) for number in (1, 2, 3)]
        return tracked, sorted(processes, key=lambda process: process.task.stream_id)

    return three


@pytest.mark.parametrize(
    ("wanted", "total", "given"),
    [
        ([None, None], 100, [50, 50]),
        ([10, None, None], 100, [10, 45, 45]),
        ([10, 20, 30], 100, [10, 20, 30]),
        ([90, 10, 60], 100, [45, 10, 45]),
        ([None], 0.5, [0.5]),
        ([], 100, []),
    ],
)
def test_unused_share_is_divided_among_the_others(wanted: list[float | None], total: float, given: list[float]) -> None:
    assert shares(dict(enumerate(wanted)), total) == pytest.approx(dict(enumerate(given)))


@given(st.lists(st.floats(1e-6, 1e12) | st.none(), min_size=1, max_size=20), st.floats(1e-6, 1e12))
@settings(derandomize=True, deadline=None)
def test_a_total_is_used_up_if_wanted_and_never_exceeded(wanted: list[float | None], total: float) -> None:
    given = shares(dict(enumerate(wanted)), total)
    rates = [math.inf if rate is None else rate for rate in wanted]
    assert sum(given.values()) == pytest.approx(min(total, sum(rates)))
    most = max(given.values())
    for stream_id, rate in given.items():
        assert 0 < rate <= rates[stream_id]
        # Whoever is denied something has as much as anybody.
        assert rate == rates[stream_id] or rate == pytest.approx(most)


def test_an_estimate_above_the_maximum_of_a_receiver_is_cut_to_it(three: Three) -> None:
    tracked, processes = three({MAX_RATE: "50"})
    processes[0].register()
    tracked.tracker.send_rate_update(0, 30.0)
    assert processes[0].received.await_one(UpdateRateLimit).rate == 30
    tracked.tracker.send_rate_update(0, 300.0)
    assert processes[0].received.await_one(UpdateRateLimit, 2).rate == 50
    assert tracked.tracker.rate_limit(0) == 50


def test_receivers_begin_with_equal_parts(three: Three) -> None:
    tracked, processes = three({MAX_TOTAL_RATE: "90"})
    assert [process.desired().rate for process in processes] == [30, 30, 30]
    assert [tracked.tracker.rate_limit(stream_id) for stream_id in range(3)] == [30, 30, 30]
    assert all(process.received.entries == [] for process in processes)


def test_maximum_per_receiver_applies_too(three: Three) -> None:
    _tracked, processes = three({MAX_TOTAL_RATE: "90", MAX_RATE: "20"})
    assert [process.desired().rate for process in processes] == [20, 20, 20]


def test_rate_below_an_equal_share_leaves_more_for_the_others(three: Three) -> None:
    tracked, processes = three({MAX_TOTAL_RATE: "90"})
    for process in processes:
        process.register()
    tracked.tracker.send_rate_update(0, 10.0)
    assert [process.received.await_one(UpdateRateLimit).rate for process in processes] == [10, 40, 40]
    # More than its part is wanted, as before: nothing is sent.
    tracked.tracker.send_rate_update(1, 1000.0)
    tracked.tracker.send_rate_update(0, 1000.0)
    assert [process.received.await_one(UpdateRateLimit, 2).rate for process in processes] == [30, 30, 30]
    # What is wanted outlives the run, not what there was of it.
    assert tracked.tracker.rates() == {0: 1000, 1: 1000}


def test_share_of_a_given_up_receiver_goes_to_the_others(three: Three) -> None:
    _tracked, processes = three(
        {
            MAX_TOTAL_RATE: "90",
            "spark.penstock.receiver.maxRestarts": "0",
            "spark.penstock.receiver.onFailure": "stop-stream",
        }
    )
    for process in processes:
        process.register()
    processes[2].launch.end(RuntimeError("died"))
    assert [process.received.await_one(UpdateRateLimit).rate for process in processes[:2]] == [45, 45]


def test_relaunched_receiver_gets_its_current_share(three: Three) -> None:
    tracked, processes = three({MAX_TOTAL_RATE: "90"})
    for process in processes:
        process.register()
    processes[2].launch.end(RuntimeError("died"))
    tracked.tracker.send_rate_update(0, 10.0)
    tracked.relaunch()
    again = tracked.process(4)
    assert again.desired().rate == 40
    tracked.settle()
    assert again.received.entries == []


def test_without_a_total_only_the_changed_receiver_is_notified(three: Three) -> None:
    tracked, processes = three({})
    assert [process.desired().rate for process in processes] == [None, None, None]
    tracked.tracker.send_rate_update(0, 10.0)
    assert processes[0].received.await_one(UpdateRateLimit).rate == 10
    tracked.settle()
    assert processes[1].received.entries == processes[2].received.entries == []


def test_recovered_rates_bound_the_recovered_blocks_of_a_batch(
    make_tracker: Callable[..., Tracked], make_log: Any
) -> None:
    first = make_tracker(write_ahead_log=make_log())
    first.tracker.start()
    assert first.registered().add(*range(5)).accepted
    first.tracker.close()
    second = make_tracker(write_ahead_log=make_log())
    # A stream of the earlier program is no longer there. A block has ten records.
    second.tracker.restore_rates({0: 10.0, 7: 1.0}, 2000)
    assert second.tracker.rates() == {0: 10.0}
    second.tracker.start()
    assert second.tracker.last_allocated_ms == -1
    for time_ms, records in ((1000, 20), (2000, 20), (3000, 10)):
        second.tracker.allocate_blocks_to_batch(time_ms)
        assert second.tracker.input_info(time_ms, 0).numRecords == records
        assert second.tracker.last_allocated_ms == time_ms
    # Nothing was reported about the receiver's buffer.
    second.registered()
    assert second.tracker.buffered_bytes() == 0
