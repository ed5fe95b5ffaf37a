"""Links from traced messages to the batch that processed them, through receiver, block, driver and exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.helpers import wait_for

from penstock import StreamingContext, ThreadReceiver

pytestmark = pytest.mark.spark

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331


class Traced(ThreadReceiver[Any]):
    """Stores one block of messages, the second of which is traced."""

    def receive(self) -> None:
        headers = [[("kind", "order")], [("traceparent", f"00-{TRACE:032x}-{SPAN:016x}-01")]]
        self.store_arrow(
            pa.table({"value": ["a", "b"], "headers": pa.array(headers, pa.map_(pa.string(), pa.string()))})
        )


def test_batch_links_to_the_traced_message(
    make_ssc: Callable[..., StreamingContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name, version: provider.get_tracer(name, version))
    ssc = make_ssc(0.2, {"spark.penstock.ui.enabled": "false", "spark.penstock.ui.traceLinks": "true"})
    ssc.receiverStream(Traced()).foreachRDD(lambda rdd: rdd.count())
    ssc.start()

    def full() -> list[Any]:
        spans = exporter.get_finished_spans()
        return [span for span in spans if span.name == "batch" and (span.attributes or {})["penstock.records"]]

    wait_for(full, "the trace of the batch with the messages")
    ssc.stop(stopSparkContext=False)
    (batch,) = full()
    assert [(link.context.trace_id, link.context.span_id) for link in batch.links] == [(TRACE, SPAN)]
    assert batch.attributes["penstock.records"] == 2
