"""``steer``: a rate estimator sets the rates of a streaming query's receivers from the durations of its batches.

A StreamingQueryListener in the program's process reads progress events and writes each rate into the source's
directory of blocks, where the source's process reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pyspark
from attrs import define, frozen
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from penstock import ConfigurationError, RateEstimator
from penstock.spi import GuardedEstimator, get_logger
from penstock_structured.block_directory import write_rate

log = get_logger("structured")

# The registered listeners, by query id.
_steerings: WeakValueDictionary[str, RateSteering] = WeakValueDictionary()


@frozen
class SourceProgress:
    """The progress of one source in one batch.

    Attributes:
        blocks: the source's directory.
        rows: rows of the batch's blocks. Spark counts a row once for each time that ``foreachBatch`` reads it.
        rate: the receiver's rate limit, records/s; -1 for none.
        started_ms: start of the batch, ms since 1970.
        took_ms: duration of the batch.
    """

    blocks: str
    rows: int
    rate: float
    started_ms: int
    took_ms: int


@define
class _Steered:
    """One steered source: its estimator, and the duration of the previous batch."""

    estimator: RateEstimator
    previous_ms: int = 0
    rate: float | None = None


class RateSteering(StreamingQueryListener):
    """Sets the rates of one query's receivers. Created by ``steer``.

    PySpark calls it on its own thread, one callback at a time.

    Args:
        query_id: id of the query; the same after a restart from its checkpoint.
        make_estimator: creates the estimator of a source.
        interval_ms: maximum duration of a batch.
        first_rate: first rate for a receiver without a limit, records/s.
    """

    def __init__(self, query_id: str, make_estimator: Any, interval_ms: int, first_rate: float) -> None:
        self._query_id = query_id
        self._make_estimator = make_estimator
        self._interval_ms = interval_ms
        self._first_rate = first_rate
        self._sources: dict[str, _Steered] = {}

    @property
    def rates(self) -> dict[str, float]:
        """The last rate set, records/s, by directory of blocks."""
        return {blocks: source.rate for blocks, source in self._sources.items() if source.rate is not None}

    @property
    def reasons(self) -> dict[str, str]:
        """The estimator's explanation of the last rate, by directory of blocks."""
        return {blocks: source.estimator.reason for blocks, source in self._sources.items()}

    def onQueryStarted(self, event: Any) -> None:
        # Rates follow from batches.
        pass

    def onQueryProgress(self, event: Any) -> None:
        if str(event.progress.id) != self._query_id:
            return
        for progress in progress_of(event.progress):
            try:
                self._steer(progress)
            except OSError as error:
                log.warning("rate not set", directory=progress.blocks, reason=str(error), throttle_s=60)

    def onQueryIdle(self, event: Any) -> None:
        # A trigger without data says nothing about the capacity.
        pass

    def onQueryTerminated(self, event: Any) -> None:
        # Keeps its state: a restarted query has the same id.
        pass

    def _steer(self, progress: SourceProgress) -> None:
        source = self._sources.get(progress.blocks)
        if source is None:
            source = self._sources[progress.blocks] = _Steered(self._make_estimator())
            if progress.rate < 0:
                advice = "set the option initialRate of the source, or spark.streaming.backpressure.enabled=true there"
                log.warning("first batch without rate limit", directory=progress.blocks, advice=advice)
            elif progress.rate > 0:
                source.estimator.begin_with(progress.rate)
        late_ms, source.previous_ms = max(source.previous_ms - self._interval_ms, 0), progress.took_ms
        ended_ms = progress.started_ms + progress.took_ms
        rate = source.estimator.compute(ended_ms, progress.rows, progress.took_ms, late_ms) if progress.rows else None
        if rate is None:
            if progress.rate >= 0:
                return
            rate = source.estimator.initial_rate or self._first_rate
        source.rate = rate
        write_rate(Path(progress.blocks), rate)
        log.debug("rate estimated", directory=progress.blocks, rate=rate, reason=source.estimator.reason)


def steer(
    spark: SparkSession,
    query: StreamingQuery,
    estimator: str = "pid",
    *,
    interval: float = 1.0,
    first_rate: float = 1000.0,
    conf: Mapping[str, str] | None = None,
    **options: Any,
) -> RateSteering:
    """Let a rate estimator set the rates of a query's receivers.

    Give the source a first rate as well, because nothing else limits the receiver until the first batch has ended: its
    option ``initialRate``, or ``spark.streaming.backpressure.enabled=true`` for a slow start. A second call for the
    same query replaces the first.

    Args:
        spark: the query's session.
        query: reads from ``format("penstock")``. Needs PySpark 4.2 or newer, which reports the directory of blocks.
        estimator: name of an installed estimator, such as ``pid`` or ``model``.
        interval: maximum duration of a batch, seconds: the interval of a ``processingTime`` trigger.
        first_rate: records/s for a receiver without a limit, unless the estimator has an initial rate.
        conf: configuration by full key: ``spark.streaming.backpressure.<estimator>.<option>``.
        options: the estimator's options, by name.

    Returns:
        The listener, added to the session. Pass it to ``spark.streams.removeListener`` to stop.

    Raises:
        UnknownNameError: no plugin offers the estimator, or an option does not exist; the message suggests a name.
        ConfigurationError: an option or argument is invalid, or PySpark is older.
    """
    if not hasattr(DataSourceStreamReader, "reportLatestOffset"):
        raise ConfigurationError(
            f"steer needs PySpark 4.2 or newer, and this is {pyspark.__version__}: set the option initialRate of the "
            "source"
        )
    if not interval > 0 or not first_rate > 0:
        raise ConfigurationError(f"steer needs interval and first_rate above 0, not {interval!r} and {first_rate!r}")
    interval_ms = round(interval * 1000)

    def make() -> RateEstimator:
        return GuardedEstimator.installed(estimator, interval_ms, conf, **options)

    make()
    query_id = str(query.id)
    steering = RateSteering(query_id, make, interval_ms, first_rate)
    if (previous := _steerings.get(query_id)) is not None:
        spark.streams.removeListener(previous)
    spark.streams.addListener(steering)
    _steerings[query_id] = steering
    return steering


def progress_of(progress: Any) -> list[SourceProgress]:
    """The progress of a query's Penstock sources.

    Args:
        progress: PySpark's ``StreamingQueryProgress``.
    """
    started_ms = round(datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp() * 1000)
    took_ms = int(progress.durationMs.get("triggerExecution", progress.batchDuration))
    sources = []
    for source in progress.sources:
        try:
            latest = json.loads(source.latestOffset)
            sources.append(
                SourceProgress(
                    str(latest["blocks"]), int(latest["batchRows"]), float(latest["rate"]), started_ms, took_ms
                )
            )
        except (TypeError, ValueError, KeyError):
            continue  # another kind of source
    return sources
