"""``RateSteering``: progress events become rates, which the source's process finds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from penstock import ConfigurationError, RateEstimator
from penstock.spi import UnknownNameError
from penstock_structured import RateSteering, steer


class Scripted(RateEstimator):
    """Gives its answers one after the other."""

    def __init__(self, *answers: float | None) -> None:
        self.answers = list(answers)
        self.asked = list[tuple[int, int, int, int]]()

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        self.asked.append((time, numElements, processingDelay, schedulingDelay))
        return self.answers.pop(0)


def progress(blocks: Path, rows: int, took_ms: int, *, rate: float = 500, query: str = "q1") -> Any:
    source = SimpleNamespace(
        # Twice: foreachBatch has read the batch twice.
        numInputRows=2 * rows,
        latestOffset=json.dumps({"block": 1, "blocks": str(blocks), "batchRows": rows, "rows": 0, "rate": rate}),
    )
    other = SimpleNamespace(numInputRows=5, latestOffset=None)
    return SimpleNamespace(
        progress=SimpleNamespace(
            id=query,
            timestamp="2026-01-02T03:04:05.678Z",
            durationMs={"triggerExecution": took_ms},
            batchDuration=took_ms,
            sources=[other, source],
        )
    )


def steering(estimator: RateEstimator) -> RateSteering:
    return RateSteering("q1", lambda: estimator, interval_ms=1000, first_rate=100.0)


def rate_in(blocks: Path) -> float | None:
    path = blocks / "rate"
    return float(path.read_text()) if path.exists() else None


def test_each_batch_is_given_to_the_estimator_and_its_rate_written(tmp_path: Path) -> None:
    estimator = Scripted(900.0, 800.0)
    listener = steering(estimator)
    listener.onQueryProgress(progress(tmp_path, 1000, 1500))
    assert rate_in(tmp_path) == 900.0
    listener.onQueryProgress(progress(tmp_path, 700, 800))
    assert rate_in(tmp_path) == 800.0
    started = 1767323045678
    # The second batch began 500 ms late: the first took that much longer than the interval.
    assert estimator.asked == [(started + 1500, 1000, 1500, 0), (started + 800, 700, 800, 500)]
    assert listener.rates == {str(tmp_path): 800.0}


def test_an_estimator_begins_with_the_rate_that_the_source_has(tmp_path: Path) -> None:
    class Begins(Scripted):
        began: tuple[float, ...] = ()

        def begin_with(self, rate: float) -> None:
            self.began = (*self.began, rate)

    estimator = Begins(900.0, 800.0)
    listener = steering(estimator)
    for rate in (500, 900):
        listener.onQueryProgress(progress(tmp_path, 1000, 1500, rate=rate))
    assert estimator.began == (500,)


def test_a_receiver_without_a_limit_gets_a_first_rate_and_a_warning_says_that_it_had_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = steering(Scripted(None, None))
    listener.onQueryProgress(progress(tmp_path, 1000, 100, rate=-1))
    listener.onQueryProgress(progress(tmp_path, 10, 100, rate=100))
    assert rate_in(tmp_path) == 100.0
    assert caplog.text.count("first batch without rate limit") == 1
    assert "initialRate" in caplog.text


def test_no_answer_leaves_the_rate(tmp_path: Path) -> None:
    listener = steering(Scripted(None))
    listener.onQueryProgress(progress(tmp_path, 1000, 100))
    assert rate_in(tmp_path) is None


def test_batches_without_rows_and_other_queries_are_ignored(tmp_path: Path) -> None:
    estimator = Scripted()
    listener = steering(estimator)
    listener.onQueryProgress(progress(tmp_path, 0, 100))
    listener.onQueryProgress(progress(tmp_path, 10, 100, query="q2"))
    assert estimator.asked == []


def test_a_directory_that_is_gone_is_logged_and_tolerated(tmp_path: Path) -> None:
    steering(Scripted(1.0)).onQueryProgress(progress(tmp_path / "gone", 10, 100))


def test_an_unknown_estimator_or_option_is_refused_before_anything_is_added() -> None:
    query: Any = SimpleNamespace(id="q1")
    with pytest.raises(UnknownNameError, match="'pid'"):
        steer(None, query, "pidd")  # type: ignore[arg-type]  # not reached
    with pytest.raises(UnknownNameError, match="minRate"):
        steer(None, query, "pid", minrat=1)  # type: ignore[arg-type]  # not reached
    with pytest.raises(ConfigurationError, match="interval"):
        steer(None, query, "pid", interval=0)  # type: ignore[arg-type]  # not reached


def test_before_pyspark_4_2_steering_is_refused_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(DataSourceStreamReader, "reportLatestOffset")
    query: Any = SimpleNamespace(id="q1")
    with pytest.raises(ConfigurationError, match=rf"4\.2 or newer, and this is {re.escape(pyspark.__version__)}"):
        steer(None, query)  # type: ignore[arg-type]  # not reached


def test_a_second_steering_of_a_query_replaces_the_first() -> None:
    listeners: list[Any] = []
    streams = SimpleNamespace(addListener=listeners.append, removeListener=listeners.remove)
    spark: Any = SimpleNamespace(streams=streams)
    first, other, second = (
        steer(spark, SimpleNamespace(id=query), estimator)  # type: ignore[arg-type]  # what it uses of a query
        for query, estimator in (("replaced", "pid"), ("other", "pid"), ("replaced", "model"))
    )
    assert first not in listeners
    assert listeners == [other, second]
