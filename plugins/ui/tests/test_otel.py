"""OpenTelemetry: one trace for each batch, and the metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from plugins.ui.tests.conftest import T, batch_events, state_of

from penstock import BatchCompleted, ConfigurationError
from penstock_testing import FakeListenerContext
from penstock_ui import otel
from penstock_ui.monitor import Monitor
from penstock_ui.own_events import ApplicationDescribed, StreamDescribed
from penstock_ui.snapshot import Application
from penstock_ui.start import monitors

CONF = {"spark.penstock.ui.enabled": "false", "spark.penstock.ui.otel": "true"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What was traced."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name, version: provider.get_tracer(name, version))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """Reads the instruments."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", lambda name, version: provider.get_meter(name, version))
    monkeypatch.setattr(otel, "_has_instruments", False)
    monkeypatch.setattr(otel, "_sources", [])
    yield reader
    provider.shutdown()


def deliver(monitor: Monitor, events: list[Any]) -> None:
    for event in events:
        getattr(monitor, f"on{type(event).__name__}")(event)


def read(reader: InMemoryMetricReader) -> dict[str, dict[tuple[tuple[str, Any], ...], float]]:
    data = reader.get_metrics_data()
    return {
        metric.name: {tuple(sorted(point.attributes.items())): point.value for point in metric.data.data_points}  # type: ignore[union-attr]
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_exported_text_can_be_encoded(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    name = "caf\udce9"
    described = ApplicationDescribed(Application(name, name), (StreamDescribed(0, name, "R", True),))
    events = [described, *batch_events(1, failure=f"Traceback:\nValueError: {name}")]
    exporter = otel.OpenTelemetry()
    exporter.state = lambda: state_of(events)
    for event in events:
        exporter.take(event)
    traced = [(span.name, dict(span.attributes or {}), span.status.description) for span in spans.get_finished_spans()]
    exported = f"{traced} {read(reader)}"
    exporter.close()
    assert exported.count("caf\ufffd") > 5
    assert "udce9" not in exported


def test_batch_is_a_trace_with_its_output_operations(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    context = FakeListenerContext(CONF)
    (monitor,) = monitors(context)
    deliver(monitor, [*batch_events(1, operations=2), *batch_events(2, failure="Traceback:\nValueError: bad")])
    context.stop()
    traced = spans.get_finished_spans()
    assert [span.name for span in traced] == ["op0", "op1", "batch", "op0", "batch"]
    operation, _, batch, failed, failed_batch = traced
    assert batch.parent is None
    assert operation.parent == batch.context
    assert len({span.context.trace_id for span in traced}) == 2
    assert (batch.start_time, batch.end_time) == ((T + 1005) * 1_000_000, (T + 1215) * 1_000_000)
    assert (operation.start_time, operation.end_time) == ((T + 1015) * 1_000_000, (T + 1215) * 1_000_000)
    assert batch.attributes == {
        "penstock.application_id": "app-0",
        "penstock.batch_time": T + 1000,
        "penstock.records": 10,
    }
    assert batch.status.is_unset
    for span in (failed, failed_batch):
        assert (span.status.is_ok, span.status.description) == (False, "ValueError: bad")


def traceparent(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


def linked(spans: InMemorySpanExporter, traceparents: list[list[int]]) -> list[tuple[int, int]]:
    """Trace and span ids that the span of a batch links to, whose streams have messages of these contexts."""
    monitor = monitors(FakeListenerContext(CONF))[0]
    events = batch_events(1, dict.fromkeys(range(len(traceparents)), 10))
    inputs = {
        id_: evolve(info, traceparents=tuple(map(traceparent, traceparents[id_])))
        for id_, info in events[-1].batchInfo.streamIdToInputInfo.items()
    }
    deliver(monitor, [BatchCompleted(evolve(events[-1].batchInfo, streamIdToInputInfo=inputs))])
    operation, batch = spans.get_finished_spans()
    assert operation.links == ()
    return [(link.context.trace_id, link.context.span_id) for link in batch.links]


def test_batch_links_to_its_messages(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    assert linked(spans, [[1, 2, 3], [], [4, 1]]) == [(1, 1), (4, 4), (2, 2), (3, 3)]


def test_links_are_bounded_and_every_stream_has_some(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    links = linked(spans, [list(range(1, 200)), list(range(1001, 1200))])
    assert links == [(of + number, of + number) for number in range(1, 65) for of in (0, 1000)]


@pytest.mark.parametrize(
    ("conf", "exports"),
    [({"ui.traceLinks": "true"}, True), ({"ui.traceLinks": "true", "ui.otel": "false"}, False), ({}, False)],
)
def test_links_need_the_export(
    conf: dict[str, str], exports: bool, spans: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    set_here = {f"spark.penstock.{key}": value for key, value in conf.items()}
    context = FakeListenerContext({"spark.penstock.ui.enabled": "false", **set_here})
    assert bool(monitors(context)) == exports
    context.stop()


def test_metrics_are_those_of_the_state(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    context = FakeListenerContext(CONF)
    (monitor,) = monitors(context)
    deliver(monitor, batch_events(1, {0: 10, 1: 30}, arrival=T + 15))
    own = ("application_id", "app-0")
    seen = read(reader)
    assert seen["penstock.batches.completed"] == {(own,): 1}
    assert seen["penstock.processed.records"] == {(own,): 40}
    assert seen["penstock.batch.latency"][own, ("percentile", "99")] == 1.2
    assert seen["penstock.stream.records"][own, ("stream", "Receiver-1"), ("stream_id", "1")] == 30
    context.stop()
    assert all(not points for points in read(reader).values())


def test_contexts_that_follow_each_other_share_the_instruments(
    spans: InMemorySpanExporter, reader: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        context = FakeListenerContext(CONF)
        (monitor,) = monitors(context)
        deliver(monitor, batch_events(1))
        assert sum(read(reader)["penstock.batches.completed"].values()) == 1
        context.stop()
    assert caplog.text == ""


def test_missing_library_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penstock_ui.otel", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock-ui\[otel\]'"):
        monitors(FakeListenerContext(CONF))
