"""``StatsReportListener`` logs the delays of the last batches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock import BatchCompleted, BatchInfo, ConfigurationError, ListenerContext
from penstock_testing import ListenerProbe, ListenerSuite, batch_info
from penstock_ui.stats_report_listener import StatsReportListener, distribution


def batch(number: int, waited_ms: int, took_ms: int | None) -> BatchCompleted:
    return BatchCompleted(batch_info(number * 1000, schedulingDelay=waited_ms, processingDelay=took_ms))


@pytest.fixture
def report(caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    """What is logged of the last of these batches."""
    caplog.set_level(logging.INFO, "penstock")

    def lines(listener: Any, *batches: BatchCompleted) -> list[str]:
        for each in batches:
            caplog.clear()
            listener.onBatchCompleted(each)
        return [record.getMessage() for record in caplog.records]

    return lines


def test_percentiles_equal_sparks() -> None:
    # As org.apache.spark.util.Distribution has them: the value at the whole part of share x count.
    assert distribution(range(100, 0, -1)) == (
        "0%: 1, 5%: 6, 10%: 11, 25%: 26, 50%: 51, 75%: 76, 90%: 91, 95%: 96, 100%: 100"
    )
    assert distribution([30, 10, 20]) == (
        "0%: 10, 5%: 10, 10%: 10, 25%: 10, 50%: 20, 75%: 30, 90%: 30, 95%: 30, 100%: 30"
    )
    assert distribution([7]) == ", ".join(f"{percent}%: 7" for percent in (0, 5, 10, 25, 50, 75, 90, 95, 100))


def test_both_delays_are_logged_after_each_batch(report: Callable[..., list[str]]) -> None:
    (line,) = report(StatsReportListener(), batch(1, 10, 100), batch(2, 20, 300))
    assert "batch delays" in line
    assert "total_delay_ms='0%: 110, 5%: 110, 10%: 110, 25%: 110, 50%: 320, 75%: 320" in line
    assert "processing_delay_ms='0%: 100, 5%: 100, 10%: 100, 25%: 100, 50%: 300, 75%: 300" in line
    assert "batch_time=1970-01-01T00:00:02.000Z" in line
    assert "batches=2" in line


def test_distribution_covers_the_last_batches_only(report: Callable[..., list[str]]) -> None:
    batches = [batch(number, 0, number) for number in range(1, 21)]
    assert "processing_delay_ms='0%: 11," in report(StatsReportListener(), *batches)[0]
    assert "processing_delay_ms='0%: 19," in report(StatsReportListener(numBatchInfos=2), *batches)[0]


def test_batch_without_a_delay_is_left_out(report: Callable[..., list[str]]) -> None:
    listener = StatsReportListener(3)
    assert report(listener, batch(1, 0, None)) == []
    (line,) = report(listener, batch(2, 0, 5), batch(3, 0, None))
    assert "processing_delay_ms='0%: 5, " in line
    assert "batches=1" in line


def test_batch_abandoned_before_it_started_has_a_total_delay_only(report: Callable[..., list[str]]) -> None:
    (line,) = report(StatsReportListener(), BatchCompleted(BatchInfo(1000, {}, 1000, None, 1100, {})))
    assert "total_delay_ms='0%: 100, " in line
    assert "processing_delay_ms=None" in line


def test_nothing_is_logged_below_info(caplog: pytest.LogCaptureFixture) -> None:
    for level, loggers in ((logging.WARNING, []), (logging.INFO, ["penstock.stats_report"])):
        caplog.set_level(level, "penstock")
        StatsReportListener().onBatchCompleted(batch(1, 1, 2))
        assert [record.name for record in caplog.records] == loggers


@pytest.mark.parametrize("number", [0, -1, 1.5, "10", None, True])
def test_invalid_number_of_batches_is_refused(number: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"numBatchInfos={number!r}"):
        StatsReportListener(number)


class TestStatsReportListener(ListenerSuite):
    def make(self, _context: ListenerContext) -> ListenerProbe:
        listener = StatsReportListener()
        return ListenerProbe(listener, lambda: {"last_batch": listener.infos[-1].batchTime if listener.infos else None})
