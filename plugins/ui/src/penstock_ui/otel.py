"""OpenTelemetry: the metrics of ``prometheus`` as observable instruments, and one trace for each batch.

Uses the providers that the program, or OpenTelemetry's own configuration, has set; without one nothing is exported.
OpenTelemetry never removes an instrument. Instruments therefore belong to the process, and successive contexts share
them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import chain, islice, zip_longest
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock import BatchCompleted, BatchInfo, __version__
from penstock.spi import printable
from penstock_ui import prometheus
from penstock_ui.own_events import ApplicationDescribed, Taken
from penstock_ui.snapshot import Snapshot, error_line

_NAME = "penstock"
_FLUSH_MS = 2000
# Links of a batch's span; the SDK's own default limit.
_MOST_LINKS = 128
# Suffix of a metric's Prometheus name → its unit in OpenTelemetry, where the unit is not part of the name.
_UNITS = {"_records_per_second": "{record}/s", "_seconds": "s", "_bytes": "By", "_total": "1"}
_W3C = TraceContextTextMapPropagator()
_lock = threading.Lock()
_sources: list[OpenTelemetry] = []
_has_instruments = False


class OpenTelemetry:
    """Exports one application. A sink of the monitor, and the source of the instruments until it is closed."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer(_NAME, __version__)
        self._application_id = ""
        self._snapshot = Snapshot()
        self._metrics: dict[str, prometheus.Metric] = {}
        #: Gives the current state; set once there is a monitor.
        self.state: Callable[[], Snapshot] = lambda: self._snapshot
        with _lock:
            _create_instruments()
            _sources.append(self)

    def take(self, event: Taken) -> None:
        """Export the trace of a batch that ended."""
        if isinstance(event, ApplicationDescribed):
            self._application_id = printable(event.application.id)
        elif isinstance(event, BatchCompleted):
            self._trace(event.batchInfo)

    def close(self) -> None:
        """Export pending data. May be called again."""
        with _lock:
            if self not in _sources:
                return
        provider: Any
        for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush(timeout_millis=_FLUSH_MS)
        with _lock:
            _sources.remove(self)

    def observe(self, name: str) -> list[Observation]:
        """The samples of a metric."""
        state = self.state()
        if state is not self._snapshot or not self._metrics:
            self._snapshot = state
            self._metrics = {metric.name: metric for metric in prometheus.metrics(state)}
        metric = self._metrics[name]
        return [
            Observation(
                value,
                {
                    **dict(zip(metric.labels, map(_attribute, labels), strict=True)),
                    "application_id": self._application_id,
                },
            )
            for labels, value in metric.samples.items()
            if value is not None
        ]

    def _trace(self, info: BatchInfo) -> None:
        end = info.processingEndTime or info.submissionTime
        attributes: dict[str, str | int] = {
            "penstock.application_id": self._application_id,
            "penstock.batch_time": info.batchTime,
            "penstock.records": info.numRecords,
        }
        # A root span, even if this thread has a current span.
        batch = self._tracer.start_span(
            "batch",
            trace.set_span_in_context(trace.INVALID_SPAN),
            SpanKind.INTERNAL,
            attributes,
            links=_links(info),
            start_time=_ns(info.submissionTime),
        )
        if info.processingStartTime is not None:
            batch.add_event("processing started", timestamp=_ns(info.processingStartTime))
        within = trace.set_span_in_context(batch)
        failure: str | None = None
        for operation in info.outputOperationInfos.values():
            if operation.startTime is None:
                continue
            span = self._tracer.start_span(
                printable(operation.name) or "output operation",
                within,
                SpanKind.INTERNAL,
                {"penstock.output_operation": operation.id, "code.stacktrace": printable(operation.description)},
                start_time=_ns(operation.startTime),
            )
            failure = failure or operation.failureReason
            _end(span, operation.endTime or end, operation.failureReason)
        _end(batch, end, failure)


def _links(info: BatchInfo) -> list[Link]:
    """Links to the messages of a batch, taken in turn from its streams."""
    of_streams = (stream_input.traceparents for stream_input in info.streamIdToInputInfo.values())
    traceparents = dict.fromkeys(filter(None, chain.from_iterable(zip_longest(*of_streams))))
    contexts = (_W3C.extract({"traceparent": traceparent}) for traceparent in islice(traceparents, _MOST_LINKS))
    return [Link(trace.get_current_span(context).get_span_context()) for context in contexts]


def _create_instruments() -> None:
    """Create the instruments once in this process."""
    global _has_instruments
    if _has_instruments:
        return
    _has_instruments = True
    meter = metrics.get_meter(_NAME, __version__)
    for metric in prometheus.metrics(Snapshot()):
        suffix = next((ending for ending in _UNITS if metric.name.endswith(ending)), "")
        name, unit = metric.name.removesuffix(suffix).replace("_", "."), _UNITS.get(suffix, "1")
        create = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        create(f"{_NAME}.{name}", [_Callback(metric.name)], unit, metric.help)


class _Callback:
    """Observes one metric of every application of this process."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, _options: CallbackOptions) -> Iterable[Observation]:
        with _lock:
            sources = list(_sources)
        return [observation for source in sources for observation in source.observe(self._name)]


def _attribute(label: Any) -> Any:
    return printable(label) if isinstance(label, str) else label


def _end(span: Span, end_ms: int, failure: str | None) -> None:
    if failure is not None:
        span.set_status(Status(StatusCode.ERROR, printable(error_line(failure))))
    span.end(_ns(end_ms))


def _ns(time_ms: int) -> int:
    return time_ms * 1_000_000
