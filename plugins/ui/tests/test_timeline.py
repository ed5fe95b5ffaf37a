from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from penstock_ui.dashboard.timeline import Change, Sample, Timeline, histogram, merge, sparkline
from penstock_ui.snapshot import Batch, BatchStatus


def batch(number: int, failed: int = 0) -> Batch:
    return Batch(number * 1000, BatchStatus.COMPLETED, number % 7, num_failed=failed)


def read(batch: Batch) -> Sample:
    return Sample(batch.time_ms, (float(batch.records), None), batch.num_failed > 0)


def batches(*numbers: int) -> Sequence[Batch]:
    return [batch(number) for number in numbers]


def test_few_batches_are_one_point_each() -> None:
    timeline = Timeline(read, max_points=10)
    assert timeline.update(batches(1, 2, 3)) == Change(replaced=True)
    assert [(point.first, point.last, point.mean) for point in timeline.points] == [
        (1000, 1000, (1.0, None)),
        (2000, 2000, (2.0, None)),
        (3000, 3000, (3.0, None)),
    ]


def test_a_new_batch_is_one_added_point_and_an_old_one_is_dropped_with_it() -> None:
    timeline = Timeline(read, max_points=10)
    timeline.update(batches(1, 2, 3))
    assert timeline.update(batches(1, 2, 3)) == Change()
    assert timeline.update(batches(2, 3, 4)) == Change(added=1, dropped=1)
    assert [point.last for point in timeline.points] == [2000, 3000, 4000]


def test_the_last_merged_point_changes_until_it_is_full() -> None:
    timeline = Timeline(read, max_points=2)
    timeline.update(batches(1, 2, 3))
    assert timeline.merged == 2
    assert timeline.update(batches(1, 2, 3, 4)) == Change(last_changed=True)
    point = timeline.points[-1]
    assert (point.batches, point.low[0], point.mean[0], point.high[0]) == (2, 3.0, 3.5, 4.0)


def test_a_batch_that_completes_after_a_later_one_is_shown() -> None:
    timeline = Timeline(read, max_points=10)
    timeline.update(batches(1, 3))
    assert timeline.update(batches(1, 2, 3)) == Change(replaced=True)
    assert [point.last for point in timeline.points] == [1000, 2000, 3000]


def test_an_emptied_timeline_starts_again() -> None:
    timeline = Timeline(read, max_points=10)
    timeline.update(batches(1))
    assert timeline.update([]) == Change(replaced=True)
    assert timeline.update([]) == Change()
    assert timeline.update(batches(5)) == Change(replaced=True)


@given(st.integers(1, 300), st.lists(st.integers(0, 40), max_size=12), st.integers(1, 80))
@settings(deadline=None, max_examples=60)
def test_points_are_bounded_and_hold_every_retained_batch_once(first: int, steps: list[int], retained: int) -> None:
    timeline, sent, end = Timeline(read, max_points=20), 0, first
    for step in [0, *steps]:
        end += step
        change = timeline.update([batch(number) for number in range(max(end - retained, 0), end)])
        # What a chart that was sent the changes holds.
        sent = len(timeline.points) if change.replaced else sent + change.added - change.dropped
        held = [point for point in timeline.points if point.last >= max(end - retained, 0) * 1000]
        assert sent == len(timeline.points)
        assert sum(point.batches for point in held) >= min(end, retained)
        assert timeline.points[-1].last == (end - 1) * 1000
        assert len(timeline.points) <= 20 + 2


def test_a_point_counts_its_failed_batches() -> None:
    assert merge([read(batch(1, failed=2)), read(batch(2)), read(batch(3, failed=1))]).failed == 2


def test_a_histogram_counts_every_known_value_once() -> None:
    assert histogram([0, 1, 5, 9.9, 10, 50, None], 10, 5) == [2, 0, 1, 0, 3]


def test_a_sparkline_stays_inside_its_drawing_and_leaves_out_what_is_not_known() -> None:
    assert sparkline([0, None, 10], 100, 20) == "0.0,19.0 100.0,1.0"
    assert sparkline([0, 0], 10, 10) == "0.0,9.0 10.0,9.0"
    assert sparkline([], 10, 10) == ""
