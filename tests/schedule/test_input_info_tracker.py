"""``InputInfoTracker``, with the numbers of Spark's InputInfoTrackerSuite."""

import pytest

from penstock import StreamInputInfo
from penstock.errors import StreamingStateError
from penstock.schedule.input_info_tracker import InputInfoTracker


@pytest.fixture
def tracker() -> InputInfoTracker:
    return InputInfoTracker()


def test_reports_are_kept_by_batch_and_stream(tracker: InputInfoTracker) -> None:
    first, second, third = StreamInputInfo(0, 100), StreamInputInfo(1, 200), StreamInputInfo(0, 300)
    tracker.report(0, first)
    tracker.report(0, second)
    tracker.report(1, third)
    assert tracker.info(0) == {0: first, 1: second}
    assert tracker.info(1) == {0: third}
    assert sum(info.numRecords for info in tracker.info(0).values()) == 300


def test_batch_without_reports_has_no_input(tracker: InputInfoTracker) -> None:
    assert tracker.info(5) == {}
    tracker.report(0, StreamInputInfo(0, 100))
    assert tracker.info(5) == {}


def test_second_report_is_refused(tracker: InputInfoTracker) -> None:
    tracker.report(1000, StreamInputInfo(0, 100))
    with pytest.raises(StreamingStateError, match=r"batch 1970-01-01T00:00:01\.000Z has been reported already"):
        tracker.report(1000, StreamInputInfo(0, 200))
    assert tracker.info(1000)[0].numRecords == 100


def test_clean_up_forgets_strictly_older_batches(tracker: InputInfoTracker) -> None:
    for time_ms in (0, 1):
        tracker.report(time_ms, StreamInputInfo(0, 100))
    tracker.clean_up(0)
    assert (len(tracker.info(0)), len(tracker.info(1))) == (1, 1)
    tracker.clean_up(1)
    assert (len(tracker.info(0)), len(tracker.info(1))) == (0, 1)
    tracker.report(0, StreamInputInfo(0, 100))


def test_returned_info_is_a_copy(tracker: InputInfoTracker) -> None:
    tracker.report(0, StreamInputInfo(0, 100))
    tracker.info(0).clear()
    assert len(tracker.info(0)) == 1
