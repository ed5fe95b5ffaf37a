"""``LineageListener``: reports the run of a program, its inputs and its outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from penstock import (
    BatchCompleted,
    BatchInfo,
    ListenerContext,
    OutputOperationInfo,
    StreamingStarted,
)
from penstock.spi import Redaction, get_logger, printable, secret_names
from penstock_openlineage.dataset import Dataset
from penstock_openlineage.event_sender import EventSender
from penstock_openlineage.options import OpenLineageOptions
from penstock_openlineage.run_events import EventType, Run, RunFailure, Traffic, run_event

log = get_logger("openlineage")

# A longer traceback loses its beginning: its end says what failed.
_MOST_TEXT = 10_000


def listeners_of(context: ListenerContext) -> Sequence[LineageListener]:
    """The listener with its sender, closed when the program has stopped; none without a destination.

    Raises:
        ConfigurationError: an option is invalid.
    """
    options = context.options("spark.penstock.openlineage.", OpenLineageOptions)
    if not options.url and not options.file:
        return []
    sender = EventSender.of(options)
    sender.start()
    listener = LineageListener(context, options, lambda event: sender.take(json.dumps(event).encode()))

    def close() -> None:
        listener.close()
        sender.close()

    context.on_stopped(close)
    return [listener]


class LineageListener:
    """Listens to a running application. ``close`` reports the end of the run.

    Args:
        context: the application.
        options: names of job and datasets, and the interval.
        emit: gets each event; must return at once.
    """

    never_drop = True

    def __init__(
        self, context: ListenerContext, options: OpenLineageOptions, emit: Callable[[dict[str, Any]], object]
    ) -> None:
        self._context = context
        self._options = options
        self._emit = emit
        self._run = Run(str(uuid4()), options.namespace, printable(context.application_name), options.interval)
        # By stream id and by number of the output operation: the traffic since the last event.
        self._inputs: dict[int, Traffic] = {}
        self._outputs: dict[int, Traffic] = {}
        self._is_running = False
        # Why the last batch failed.
        self._failure: RunFailure | None = None
        # When the last event of the running program was reported.
        self._reported_ms: int | None = None

    def onStreamingStarted(self, streamingStarted: StreamingStarted) -> None:
        """Report the start of the run."""
        names = {stream.stream_id: stream.name for stream in self._context.receiver_streams}
        for node in self._context.graph():
            if node.stream_id is not None:
                name = names.get(node.stream_id) or node.name or f"{node.type}-{node.stream_id}"
                self._inputs[node.stream_id] = Traffic(self._dataset(name))
        self._is_running = True
        self._send("START", streamingStarted.time)
        log.info("lineage run started", run_id=self._run.run_id, job=self._run.job, namespace=self._run.namespace)

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Count what the batch read and wrote, and report it if an event is due."""
        info = batchCompleted.batchInfo
        self._count(info)
        now_ms = self._context.now_ms()
        if self._reported_ms is None or now_ms - self._reported_ms >= self._options.interval * 1000:
            self._reported_ms = now_ms
            self._send("RUNNING", now_ms)

    def close(self) -> None:
        """Report the end of the run, failed if its last batch failed. May be called again."""
        if self._is_running:
            self._is_running = False
            self._send("COMPLETE" if self._failure is None else "FAIL", self._context.now_ms())

    def _count(self, info: BatchInfo) -> None:
        for stream_id, of_stream in info.streamIdToInputInfo.items():
            before = self._inputs.get(stream_id) or Traffic(self._dataset(f"stream-{stream_id}"))
            self._inputs[stream_id] = before + Traffic(before.dataset, of_stream.numRecords)
        failed = None
        for number, operation in info.outputOperationInfos.items():
            written = self._written(operation)
            self._outputs[number] = self._outputs[number] + written if number in self._outputs else written
            failed = failed or operation.failureReason
        self._failure = None if failed is None else self._described(failed)

    def _written(self, operation: OutputOperationInfo) -> Traffic:
        metadata = operation.metadata
        return Traffic(
            self._output(operation),
            _count_in(metadata, "rows"),
            _count_in(metadata, "bytes"),
            _count_in(metadata, "files"),
        )

    def _output(self, operation: OutputOperationInfo) -> Dataset:
        uri = operation.metadata.get("dataset")
        if isinstance(uri, str) and operation.name not in self._options.datasets:
            try:
                return Dataset.of_uri(printable(uri))
            # Not the URI itself, which may contain a password.
            except ValueError as error:
                log.warning("dataset of output not valid", reason=str(error), operation=operation.name, throttle_s=3600)
        return self._dataset(operation.name)

    def _dataset(self, name: str) -> Dataset:
        own = Dataset(self._options.namespace, printable(f"{self._context.application_name}.{name}"))
        return self._options.datasets.get(name, own)

    def _described(self, failure: str) -> RunFailure:
        configuration = self._context.configuration
        names = secret_names(configuration)
        secrets = [value for key, value in configuration.items() if names.search(key)]
        text = printable(Redaction.of(names, secrets).apply(failure)).strip()
        return RunFailure(text.rpartition("\n")[2][-_MOST_TEXT:], text[-_MOST_TEXT:])

    def _send(self, event_type: EventType, time_ms: int) -> None:
        failure = self._failure if event_type == "FAIL" else None
        self._emit(run_event(self._run, event_type, time_ms, self._inputs.values(), self._outputs.values(), failure))
        self._inputs = {id_: Traffic(traffic.dataset) for id_, traffic in self._inputs.items()}
        self._outputs = {id_: Traffic(traffic.dataset) for id_, traffic in self._outputs.items()}


def _count_in(metadata: Mapping[str, Any], name: str) -> int | None:
    value = metadata.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
