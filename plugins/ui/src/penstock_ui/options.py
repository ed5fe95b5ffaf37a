"""The plugin's options, as configuration has them."""

from __future__ import annotations

from attrs import field, frozen, validators

from penstock.spi import PositiveDurationS


@frozen(kw_only=True)
class UIOptions:
    """Options of the server, below ``spark.penstock.ui.``."""

    enabled: bool | None = field(
        default=None,
        metadata={"help": "Serve dashboard, REST and Prometheus metrics. By default what `spark.ui.enabled` says."},
    )
    host: str = field(
        default="127.0.0.1",
        validator=validators.min_len(1),
        metadata={"help": "Address to listen on; `0.0.0.0` for all."},
    )
    port: int = field(
        default=4050,
        validator=[validators.ge(0), validators.le(65535)],
        metadata={"help": "First port to try; `spark.port.maxRetries` more are tried after it. 0: any free port."},
    )
    otel: bool | None = field(
        default=None,
        metadata={"help": "Export metrics and traces with OpenTelemetry. By default if its SDK is installed."},
    )
    traceLinks: bool = field(
        default=False,
        metadata={
            "help": "Link the trace of a batch to the traces of its messages, by their header `traceparent`. Receivers "
            "must store their column of headers. Exports with OpenTelemetry unless `otel` is `false`."
        },
    )
    token: str = field(
        default="",
        repr=False,
        metadata={
            "help": "Secret that every request must carry. Empty: the variable `PENSTOCK_UI_TOKEN` of the driver; "
            "without it one that is generated for each run, part of `ssc.uiWebUrl`. `none`: no token, on loopback only."
        },
    )


@frozen(kw_only=True)
class EventLogOptions:
    """Options of the event log, below ``spark.penstock.eventLog.``."""

    dir: str = field(
        default="",
        metadata={"help": "Directory of event logs, of any number of applications; a path or URI. Empty: no log."},
    )
    maxFileSize: int = field(
        default=16 << 20,
        validator=validators.ge(4096),
        metadata={"help": "Bytes after which the log continues in a new file."},
    )
    maxFiles: int = field(
        default=10,
        validator=validators.ge(2),
        metadata={"help": "Files of one application to keep; the oldest is deleted when there are more."},
    )
    maxApplications: int = field(
        default=1000,
        validator=validators.ge(1),
        metadata={"help": "Applications to keep; of more, the logs of the oldest that have ended are deleted."},
    )
    maxAge: PositiveDurationS = field(
        default=90 * 86400.0,
        metadata={"help": "Seconds, or such as `90d`: an ended application's log is deleted this long after its end."},
    )


@frozen(kw_only=True)
class RetentionOptions:
    """Spark's options of its streaming tab, below ``spark.streaming.ui.``."""

    retainedBatches: int = field(
        default=1000,
        validator=validators.gt(0),
        metadata={"help": "Completed batches that the dashboard and REST show."},
    )


#: The key of ``UIOptions.traceLinks``, which executors read as well.
TRACE_LINKS = "spark.penstock.ui.traceLinks"
#: Prefix of their keys → options class.
OPTIONS: dict[str, type] = {
    "spark.penstock.ui.": UIOptions,
    "spark.penstock.eventLog.": EventLogOptions,
    "spark.streaming.ui.": RetentionOptions,
}
