"""The metrics for Prometheus: a pure function from a snapshot to the text exposition format.

Names follow Prometheus' conventions: base units, ``_total`` for counts that only rise. The values of every label come
from the program, not from its data, so the number of series does not grow with time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from penstock_ui.snapshot import Batch, Distribution, Snapshot

#: Content type of the HTTP response.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "penstock_"

_STREAM = ("stream_id", "stream")


@frozen
class Metric:
    """A metric with its samples.

    Attributes:
        name: without the prefix.
        kind: ``gauge`` or ``counter``.
        help: the description.
        samples: values by label values; unknown values are left out.
        labels: names of the labels.
    """

    name: str
    kind: str
    help: str
    samples: Mapping[Any, float | None] = field(factory=dict)
    labels: tuple[str, ...] = ()


def exposition(snapshot: Snapshot) -> str:
    """All metrics as text."""
    return "".join(_text(metric) for metric in metrics(snapshot))


def metrics(snapshot: Snapshot) -> list[Metric]:
    """Every metric, including those without a sample."""
    return [*_application(snapshot), *_batches(snapshot), *_streams(snapshot), *_budgets(snapshot), *_storage(snapshot)]


def _application(snapshot: Snapshot) -> Iterable[Metric]:
    application = snapshot.application
    labels = ("application_id", "application", "version")
    values = (application.id, application.name, application.penstock_version)
    yield Metric("application_info", "gauge", "The application, 1.", {values: 1}, labels)
    yield _gauge("up", "1 while the application runs, 0 once it has stopped.", int(snapshot.is_live))
    yield _gauge("start_timestamp_seconds", "When the context started.", _seconds(snapshot.started_ms))
    yield _gauge("batch_interval_seconds", "The batch interval.", _seconds(application.batch_interval_ms))
    yield _gauge("receivers", "Receiver streams of the program.", len(snapshot.receivers))
    yield _gauge("receivers_active", "Receivers that are registered.", snapshot.active_receivers)
    for name, kind, help, samples in (
        (
            "dropped_events_total",
            "counter",
            "Events lost by a slow listener.",
            {listener.name: listener.dropped for listener in snapshot.listeners},
        ),
        (
            "failed_events_total",
            "counter",
            "Events a listener raised on.",
            {listener.name: listener.failed for listener in snapshot.listeners},
        ),
        (
            "disabled",
            "gauge",
            "1 when the bus has disabled the listener.",
            {listener.name: listener.disabled for listener in snapshot.listeners},
        ),
    ):
        values_of = {(listener,): float(value) for listener, value in samples.items()}
        yield Metric(f"listener_{name}", kind, help, values_of, ("listener",))


def _batches(snapshot: Snapshot) -> Iterable[Metric]:
    totals, completed = snapshot.totals, snapshot.completed
    waiting, running = len(snapshot.waiting), len(snapshot.running)
    yield _counter("batches_completed_total", "Batches that ended, successfully or not.", totals.completed_batches)
    yield _counter("batches_failed_total", "Batches with a failed output operation.", totals.failed_batches)
    yield _counter("received_records_total", "Records of the batches that started.", totals.received_records)
    yield _counter("processed_records_total", "Records of the batches that ended.", totals.processed_records)
    yield _gauge("batches_unprocessed", "Batches that wait or run.", waiting + running)
    yield _gauge("batches_waiting", "Batches that wait.", waiting)
    yield _gauge("batches_running", "Batches that run.", running)
    yield _gauge("batches_retained", "Completed batches that the percentiles are computed from.", len(completed))
    last = completed[-1] if completed else None
    received = snapshot.batches[-1] if snapshot.batches else None
    yield from _batch("last_completed_batch", "the last completed batch", last)
    yield _delay("last_completed_batch_processing_delay", "the last completed batch", last, "processing_delay_ms")
    yield _delay("last_completed_batch_scheduling_delay", "the last completed batch", last, "scheduling_delay_ms")
    yield _delay("last_completed_batch_total_delay", "the last completed batch", last, "total_delay_ms")
    yield _delay("last_completed_batch_latency", "the last completed batch", last, "latency_ms")
    yield _gauge(
        "last_completed_batch_succeeded",
        "1 when all output operations of the last completed batch succeeded.",
        None if last is None else int(last.num_failed == 0),
    )
    operations = () if last is None else last.operations or ()
    described = {
        (str(operation.id), operation.name, name): float(value)
        for operation in operations
        for name, value in operation.metadata.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    yield Metric(
        "last_completed_batch_output",
        "gauge",
        "A number by which an output operation describes its output in the last completed batch, such as rows.",
        described,
        ("output_operation_id", "output_operation", "quantity"),
    )
    yield from _batch("last_received_batch", "the newest batch", received)
    yield _gauge(
        "last_received_batch_records", "Records of the newest batch.", None if received is None else received.records
    )
    for name, help, distribution in (
        ("latency", "From the arrival of a batch's earliest record to the batch's end", snapshot.latency),
        ("generation_delay", "From the batch time to the submission of the jobs", snapshot.generation_delay),
        ("scheduling_delay", "From submission to the start of the first job", snapshot.scheduling_delay),
        ("processing_delay", "From the start of the first job to the end of the last", snapshot.processing_delay),
        ("total_delay", "From submission to the end of the last job", snapshot.total_delay),
    ):
        yield _percentiles(f"batch_{name}_seconds", f"{help}, over the retained batches.", distribution)


def _batch(name: str, what: str, batch: Batch | None) -> Iterable[Metric]:
    times = (None, None, None) if batch is None else (batch.submitted_ms, batch.started_ms, batch.ended_ms)
    for part, verb, time_ms in zip(
        ("submission", "processing_start", "processing_end"),
        ("was submitted", "started", "ended"),
        times,
        strict=True,
    ):
        yield _gauge(f"{name}_{part}_timestamp_seconds", f"Time at which {what} {verb}.", _seconds(time_ms))


def _delay(name: str, what: str, batch: Batch | None, attribute: str) -> Metric:
    value = None if batch is None else getattr(batch, attribute)
    return _gauge(
        f"{name}_seconds", f"{attribute.removesuffix('_ms').replace('_', ' ').capitalize()} of {what}.", _seconds(value)
    )


def _percentiles(name: str, help: str, distribution: Distribution | None) -> Metric:
    samples: dict[tuple[str, ...], float | None] = {}
    if distribution is not None:
        ranks = {"50": distribution.p50, "95": distribution.p95, "99": distribution.p99, "100": distribution.maximum}
        samples = {(percentile,): _seconds(value) for percentile, value in ranks.items()}
    return Metric(name, "gauge", help, samples, ("percentile",))


def _streams(snapshot: Snapshot) -> Iterable[Metric]:
    keys = {(str(stream.id), stream.name): stream for stream in snapshot.streams}
    receivers = {key: stream for key, stream in keys.items() if stream.has_receiver}
    infos = {key: stream.receiver for key, stream in receivers.items() if stream.receiver is not None}
    sources = {key: info.source for key, info in infos.items() if info.source is not None}
    last = next((batch for batch in reversed(snapshot.completed) if batch.inputs is not None), None)
    rates = {} if last is None else {key: snapshot.input_rate(last, stream.id) for key, stream in keys.items()}
    for name, kind, help, samples in (
        (
            "stream_records_total",
            "counter",
            "Records of the stream in completed batches.",
            {k: s.records for k, s in keys.items()},
        ),
        ("stream_input_records_per_second", "gauge", "Input rate of the last completed batch.", rates),
        (
            "receiver_active",
            "gauge",
            "1 when the receiver is registered.",
            {k: s.is_active for k, s in receivers.items()},
        ),
        (
            "receiver_restarts_total",
            "counter",
            "Restarts and relaunches of the receiver.",
            {k: s.restarts for k, s in receivers.items()},
        ),
        (
            "receiver_errors_total",
            "counter",
            "Errors that the receiver reported.",
            {k: s.errors for k, s in receivers.items()},
        ),
        (
            "receiver_rate_limit_records_per_second",
            "gauge",
            "The rate limit; no sample: no limit.",
            {k: s.rate_limit for k, s in receivers.items()},
        ),
        (
            "receiver_lost_blocks_total",
            "counter",
            "Blocks of the receiver that a batch needed and that were lost.",
            {k: i.lost_blocks for k, i in infos.items()},
        ),
        (
            "receiver_lost_records_total",
            "counter",
            "Records in the lost blocks.",
            {k: i.lost_records for k, i in infos.items()},
        ),
        (
            "receiver_unhealthy",
            "gauge",
            "1 when the receiver has used up its failure budget.",
            {k: i.unhealthy for k, i in infos.items()},
        ),
        (
            "receiver_given_up",
            "gauge",
            "1 when the receiver is not relaunched any more.",
            {k: i.given_up for k, i in infos.items()},
        ),
        (
            "receiver_lag_messages",
            "gauge",
            "Messages in the source that the receiver has not stored.",
            {k: s.lag_messages for k, s in sources.items()},
        ),
        (
            "receiver_lag_seconds",
            "gauge",
            "Age of the last message stored while there are later ones.",
            {k: s.lag_s for k, s in sources.items()},
        ),
        (
            "receiver_oldest_unacknowledged_seconds",
            "gauge",
            "How long the receiver has had the oldest message that it has not acknowledged.",
            {k: s.oldest_unacknowledged_s for k, s in sources.items()},
        ),
        (
            "receiver_redelivered_total",
            "counter",
            "Messages that the receiver's launch got although they had been delivered before.",
            {k: s.redelivered for k, s in sources.items()},
        ),
        (
            "receiver_dead_letters_total",
            "counter",
            "Messages that the receiver's launch sent to the dead-letter destination.",
            {k: s.dead_letters for k, s in sources.items()},
        ),
    ):
        yield Metric(
            name, kind, help, {key: None if value is None else float(value) for key, value in samples.items()}, _STREAM
        )


def _budgets(snapshot: Snapshot) -> Iterable[Metric]:
    samples: dict[tuple[str, ...], float | None] = {
        (str(stream.id), stream.name, state): share
        for stream in snapshot.receivers
        if stream.budget is not None
        for state, share in stream.budget.shares.items()
    }
    help = "Share of the receiver's time in the last minute, by what it did or waited for; they add up to 1."
    yield Metric("receiver_time_share", "gauge", help, samples, (*_STREAM, "state"))


def _storage(snapshot: Snapshot) -> Iterable[Metric]:
    storage = snapshot.storage
    age_ms = None if storage.checkpoint_ms is None else max(snapshot.time_ms - storage.checkpoint_ms, 0)
    yield _gauge("backlog_bytes", "Blocks that no batch has processed.", storage.backlog_bytes)
    yield _gauge("blocks", "Stored blocks that are not cleaned up.", storage.blocks)
    yield _gauge(
        "blocks_disk_bytes", "Their size on disk, or in the receiver write-ahead log.", storage.block_disk_bytes
    )
    yield _gauge("receiver_buffered_bytes", "Records in the receivers' memory.", storage.buffered_bytes)
    yield _gauge("driver_write_ahead_log_bytes", "Size of the driver write-ahead log.", storage.driver_log_bytes)
    yield _gauge(
        "last_checkpoint_timestamp_seconds", "When the last checkpoint was written.", _seconds(storage.checkpoint_ms)
    )
    yield _gauge("checkpoint_age_seconds", "Age of the last checkpoint.", _seconds(age_ms))
    yield _gauge(
        "checkpoint_consecutive_failures",
        "Checkpoints in a row that could not be written.",
        storage.checkpoint_failures,
    )
    yield _gauge("batches_awaiting_rerun", "Failed batches that wait to run again.", storage.failed_batches)
    yield _gauge(
        "oldest_failed_batch_timestamp_seconds",
        "Batch time of the oldest failed batch that waits to run again.",
        _seconds(storage.oldest_failed_ms),
    )


def _gauge(name: str, help: str, value: float | None) -> Metric:
    return Metric(name, "gauge", help, {(): value})


def _counter(name: str, help: str, value: float) -> Metric:
    return Metric(name, "counter", help, {(): value})


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _text(metric: Metric) -> str:
    name = f"{PREFIX}{metric.name}"
    lines = [f"# HELP {name} {_escaped(metric.help)}", f"# TYPE {name} {metric.kind}"]
    for values, value in metric.samples.items():
        if value is not None:
            labels = ",".join(
                f'{label}="{_escaped(text, quotes=True)}"' for label, text in zip(metric.labels, values, strict=True)
            )
            lines.append(f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
