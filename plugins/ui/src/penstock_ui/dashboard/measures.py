"""The values that charts show for a batch: the overview's four measures, and a stream's rate, limit and capacity."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from penstock_ui.snapshot import Batch


@frozen
class Measure:
    """A row of the overview.

    Attributes:
        name: prefix of its columns and models.
        title: the heading on the page.
        description: definition of the measure, shown as a tooltip.
        read: reads the value from a batch.
        is_rate: whether the unit is records/s; otherwise it is a duration in ms.
        has_interval: whether its chart shows the batch interval.
        has_own_scale: whether its axis is its own.
    """

    name: str
    title: str
    description: str
    read: Callable[[Batch], float | None]
    is_rate: bool = False
    has_interval: bool = False
    has_own_scale: bool = False


def measures(interval_ms: int) -> tuple[Measure, ...]:
    """The four rows of the overview, as Spark has them."""
    return (
        Measure(
            "rate",
            "Input Rate",
            "Records that arrived per second",
            lambda batch: batch.records * 1000 / interval_ms,
            is_rate=True,
            has_own_scale=True,
        ),
        Measure(
            "scheduling",
            "Scheduling Delay",
            "Time from the submission of a batch to the start of its first job",
            lambda batch: batch.scheduling_delay_ms,
        ),
        Measure(
            "processing",
            "Processing Time",
            "Time taken to process all jobs of a batch",
            lambda batch: batch.processing_delay_ms,
            has_interval=True,
            has_own_scale=True,
        ),
        Measure(
            "total",
            "Total Delay",
            "Total time taken to handle a batch",
            lambda batch: batch.total_delay_ms,
            has_interval=True,
        ),
    )


def measured(batch: Batch, stream_id: int | None, interval_ms: int) -> float | None:
    """The rate at which a batch's records arrived; ``None`` when the stream's details are no longer retained."""
    if stream_id is None:
        return batch.records * 1000 / interval_ms
    if batch.inputs is None:
        return None
    info = batch.inputs.get(stream_id)
    return 0.0 if info is None else info.numRecords * 1000 / interval_ms


def limit(batch: Batch, stream_id: int | None) -> float | None:
    """The rate limit when a batch was generated. For all streams together, ``None`` if one of them has no limit."""
    if batch.inputs is None:
        return None
    if stream_id is not None:
        info = batch.inputs.get(stream_id)
        return None if info is None else info.rate_limit
    limits = [info.rate_limit for info in batch.inputs.values()]
    set_limits = [value for value in limits if value is not None]
    return sum(set_limits) if set_limits and len(set_limits) == len(limits) else None


def capacity(batch: Batch, stream_id: int | None) -> float | None:
    """The rate at which a batch's records, or those of one stream, were processed."""
    if stream_id is None:
        return batch.capacity_per_s
    info, took = (batch.inputs or {}).get(stream_id), batch.processing_delay_ms
    return info.numRecords * 1000 / took if info is not None and took and info.numRecords else None
