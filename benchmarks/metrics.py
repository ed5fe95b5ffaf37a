"""The figures of a measurement: their names and units, and their computation from a program's result and usage."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from attrs import frozen

from benchmarks.processes import ROLES, Usage
from benchmarks.programs.task import Batch, Result


@frozen
class Metric:
    """One kind of figure.

    Attributes:
        title: heading of its column.
        unit: its unit.
        is_more_better: whether a larger figure is better.
    """

    title: str
    unit: str
    is_more_better: bool = False


METRICS: dict[str, Metric] = {
    "records_per_s": Metric("throughput", "records/s", is_more_better=True),
    "records_per_core_s": Metric("throughput of the receiver's process", "records/s per core", is_more_better=True),
    "from_start_s": Metric("from start to last answer", "s"),
    "cpu_us_per_record": Metric("CPU", "µs per record"),
    "processing_p50_ms": Metric("processing p50", "ms"),
    "processing_p99_ms": Metric("processing p99", "ms"),
    "scheduling_p99_ms": Metric("scheduling delay p99", "ms"),
    "end_to_end_p50_ms": Metric("end to end p50", "ms"),
    "end_to_end_p99_ms": Metric("end to end p99", "ms"),
    "cpu_ms_per_batch": Metric("CPU", "ms per batch"),
    "driver_cpu_ms_per_batch": Metric("CPU of the Python driver", "ms per batch"),
    "drift": Metric("processing p50, last quarter over second", "x"),
    "memory_mb": Metric("peak memory", "MB"),
    "workers_mb": Metric("memory of the Python workers", "MB"),
    "driver_mb": Metric("memory of the Python driver", "MB"),
    "jvm_mb": Metric("memory of the JVM", "MB"),
}


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(result: Result, usage: Usage, began_s: float, warm_up: int, sent_before: int = 0) -> dict[str, float]:
    """All figures that a measurement gives, by metric.

    Args:
        result: of the program.
        usage: CPU and memory of its processes since ``began_s``.
        began_s: when the first receiver connected or its warm-up ended, or the first batch was due, in seconds of the
            epoch.
        warm_up: batches that the delays leave out, from the first with records.
        sent_before: records that were processed before ``began_s``.
    """
    took_s = max(result.batches[-1].end_s - began_s, 1e-3)
    warm_up += next((index for index, batch in enumerate(result.batches) if batch.records), 0)
    later = result.batches[warm_up:] or result.batches[-1:]
    full = _full(later)
    metrics = {
        "cpu_ms_per_batch": usage.cpu_s / len(result.batches) * 1000,
        "driver_cpu_ms_per_batch": usage.cpu_of_role_s.get("driver", 0.0) / len(result.batches) * 1000,
        "memory_mb": usage.peak_mb,
    }
    metrics |= {f"{role}_mb": usage.peak_of_role_mb.get(role, 0.0) for role in ROLES}
    if len(result.batches) > 1:  # else the engine has no batches
        metrics["processing_p50_ms"] = statistics.median(batch.processing_ms for batch in full)
        metrics["processing_p99_ms"] = quantile([batch.processing_ms for batch in full], 0.99)
        waits_ms = [batch.scheduling_ms for batch in later if batch.scheduling_ms is not None]
        if waits_ms:
            metrics["scheduling_p99_ms"] = quantile(waits_ms, 0.99)
    if result.started_s:
        metrics["from_start_s"] = result.batches[-1].end_s - result.started_s
    if (records := result.records - sent_before) > 0:
        metrics["records_per_s"] = records / took_s
        metrics["cpu_us_per_record"] = usage.cpu_s / records * 1e6
        # An engine with a single process also receives in it.
        receiver_s = usage.busiest_worker_s or (usage.cpu_s if not usage.cpu_of_role_s.get("jvm") else 0.0)
        if receiver_s:
            metrics["records_per_core_s"] = records / receiver_s
    if result.delays_ms:
        # At most half of them, for an engine with few batches or none.
        skipped = len(result.delays_ms) * warm_up // max(len(result.batches), 2 * warm_up, 1)
        delays = result.delays_ms[skipped:]
        metrics["end_to_end_p50_ms"] = statistics.median(delays)
        metrics["end_to_end_p99_ms"] = quantile(delays, 0.99)
    if len(full) >= 8:
        metrics["drift"] = _drift(full)
    return metrics


def trend(batches: Sequence[Batch], buckets: int = 50) -> list[tuple[float, float]]:
    """The median processing delay over the number of batches run, ms, in this many buckets at most."""
    size = max(1, len(batches) // buckets)
    return [
        (first + size / 2, statistics.median(batch.processing_ms for batch in batches[first : first + size]))
        for first in range(0, len(batches) - size + 1, size)
    ]


def _full(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The batches, except those with none or far fewer records than the others."""
    usual = quantile([batch.records for batch in batches], 0.9)
    return [batch for batch in batches if batch.records >= usual / 2]


def _drift(batches: Sequence[Batch]) -> float:
    quarter = len(batches) // 4
    middle, last = (
        statistics.median(batch.processing_ms for batch in batches[first : first + quarter])
        for first in (quarter, len(batches) - quarter)
    )
    return last / max(middle, 1e-3)


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each metric that all rounds have."""
    names = [name for name in METRICS if all(name in metrics for metrics in rounds)] if rounds else []
    return {name: statistics.median(metrics[name] for metrics in rounds) for name in names}
