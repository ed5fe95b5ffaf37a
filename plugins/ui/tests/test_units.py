from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from penstock_ui.dashboard import units


@pytest.fixture
def los_angeles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (900, "900 ms"),
        (1000, "1.0 sec"),
        (60_000, "1.0 min"),
        (3_600_000, "1.0 hrs"),
        (86_400_000, "1.0 days"),
        (None, "-"),
        (math.nan, "-"),
    ],
)
def test_durations_have_the_units_of_spark(ms: float | None, text: str) -> None:
    assert units.duration(ms) == text


@pytest.mark.usefixtures("los_angeles")
def test_batch_times_are_local_and_show_milliseconds_only_if_the_interval_needs_them() -> None:
    assert units.batch_time(1_431_637_480_452, 1000) == "2015/05/14 14:04:40"
    assert units.batch_time(1_431_637_480_452, 999) == "2015/05/14 14:04:40.452"
    assert units.batch_time(1_431_637_480_452, 1500, with_date=False) == "14:04:40.452"
    assert units.batch_time(None, 1000) == "-"
    assert units.as_local(1_431_637_480_452) == 1_431_637_480_452 - 7 * 3_600_000
    assert units.zone() == "UTC-0700" or units.zone() == "UTC-0800"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (3.25, "3.25"), (950, "950"), (1234, "1.23k"), (99_960, "100k"), (34_000_000, "34M"), (None, "-")],
)
def test_short_numbers_have_at_most_five_characters(number: float | None, text: str) -> None:
    assert units.short(number) == text


def test_rates_counts_and_sizes_are_written_for_people() -> None:
    assert (units.rate(1234.5), units.rate(9.94), units.rate(0), units.rate(None)) == ("1,234", "9.9", "0", "-")
    assert (units.count(1_000_000), units.count(None)) == ("1,000,000", "-")
    assert (units.size(1023), units.size(1536), units.size(3 << 40)) == ("1023 B", "1.5 KiB", "3.0 TiB")
    assert (units.plural(1, "batch"), units.plural(0, "batch"), units.plural(1200, "stream")) == (
        "1 batch",
        "0 batches",
        "1,200 streams",
    )
    assert (units.ago(5000, 4000), units.ago(0, 90_000), units.ago(-1, 5)) == ("just now", "1.5 min ago", "never")


@given(st.floats(0, 1e13))
@settings(deadline=None)
def test_axes_begin_at_zero_contain_the_largest_value_and_have_two_to_five_ticks(largest: float) -> None:
    for scale in (units.duration_scale(largest), units.rate_scale(largest)):
        assert scale.ticks[0] == 0
        assert scale.end == scale.ticks[-1] >= largest * (1 - 1e-6)
        assert 2 <= len(scale.ticks) <= 5
        assert len(set(scale.labels)) == len(scale.labels) == len(scale.ticks)


def test_axes_of_durations_have_one_unit() -> None:
    assert units.duration_scale(1300).labels == ("0", "0.5 sec", "1 sec", "1.5 sec")
    assert units.duration_scale(200_000).labels == ("0", "2 min", "4 min")


def test_a_percentile_is_the_nearest_rank() -> None:
    assert units.percentile([5, 1, 3], 50) == 3
    assert units.percentile([5, 1, 3], 100) == 5
    assert units.percentile([], 50) is None
