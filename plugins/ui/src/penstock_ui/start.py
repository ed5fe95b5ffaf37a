"""Starts the configured parts: server, event log, OpenTelemetry."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from penstock import ConfigurationError, ListenerContext
from penstock.spi import get_logger
from penstock_ui.access import Token
from penstock_ui.monitor import Monitor, Sink
from penstock_ui.options import EventLogOptions, RetentionOptions, UIOptions
from penstock_ui.server import UIServer
from penstock_ui.spark_jobs import job_query
from penstock_ui.store import Limits, MetricsStore

log = get_logger("ui")

_DEFAULT_RETRIES = 16


def monitors(context: ListenerContext) -> list[Monitor]:
    """The listener that collects the metrics, with server and event log started; none when all are off.

    Raises:
        ConfigurationError: an option is invalid.
    """
    options = context.options("spark.penstock.ui.", UIOptions)
    logged = context.options("spark.penstock.eventLog.", EventLogOptions)
    retained = context.options("spark.streaming.ui.", RetentionOptions)
    serves = options.enabled
    if serves is None:
        serves = context.configuration.get("spark.ui.enabled", "true").strip().lower() != "false"
    sinks: list[Sink] = []
    if logged.dir:
        sinks.append(_event_log(logged, context.application_id))
    exporter = None
    exports = options.traceLinks or (serves and _has_sdk()) if options.otel is None else options.otel
    if exports:
        exporter = _open_telemetry()
        sinks.append(exporter)
    if not serves and not sinks:
        return []
    store = MetricsStore(Limits(batches=retained.retainedBatches))
    monitor = Monitor(context, store, sinks, job_query(context.application_id))
    if exporter is not None:
        exporter.state = monitor.snapshot
    context.on_stopped(monitor.close)
    if serves:
        _serve(context, monitor, options)
    return [monitor]


def _serve(context: ListenerContext, monitor: Monitor, options: UIOptions) -> None:
    retries = context.configuration.get("spark.port.maxRetries", str(_DEFAULT_RETRIES))
    # A secret of the environment, such as one of Kubernetes, is in no configuration.
    token = Token.of(options.token, os.environ.get("PENSTOCK_UI_TOKEN", ""))
    server = UIServer(
        monitor,
        options.host,
        options.port,
        int(retries) if retries.isdecimal() else _DEFAULT_RETRIES,
        token,
        context.configuration.get("spark.driver.host", "localhost"),
    )
    try:
        server.start()
    # A dashboard that cannot start must not stop the program.
    except OSError as error:
        log.warning(
            "dashboard not started",
            host=options.host,
            port=options.port,
            reason=str(error),
            advice="set spark.penstock.ui.port, or spark.penstock.ui.enabled=false",
        )
        return
    monitor.at_close(server.stop)
    # Without the token: descriptions of jobs are for everybody who sees Spark's UI.
    context.publish_ui(server.address, f"{server.url}/batch?id={{batch_time}}")
    if token.is_generated and _is_terminal() and not log.isEnabledFor(logging.INFO):
        print(f"Dashboard: {server.address}", file=sys.stderr)


def _is_terminal() -> bool:
    """Whether an operator sees standard error, and no program has replaced it."""
    stream = sys.__stderr__
    return stream is not None and sys.stderr is stream and stream.isatty()


def _event_log(options: EventLogOptions, application_id: str) -> Sink:
    module: Any = import_module("penstock_ui.event_log")
    retention = module.Retention(
        max_files=options.maxFiles, max_applications=options.maxApplications, max_age_s=options.maxAge
    )
    event_log = module.EventLog(options.dir, application_id, options.maxFileSize, retention)
    event_log.start()
    sink: Sink = event_log
    return sink


def _has_sdk() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


def _open_telemetry() -> Any:
    try:
        return import_module("penstock_ui.otel").OpenTelemetry()
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"spark.penstock.ui.otel or traceLinks needs OpenTelemetry: pip install 'penstock-ui[otel]' ({error})"
        ) from None
