"""Logging: structlog on top of the standard library's ``penstock`` logger, with rate-limited events.

Never configures structlog or the root logger for the program around it. WARNING and above reach standard error as the
standard library does it, lower levels after ``configure``. Level and format belong to the process: the driver and each
receiver's worker configure their own.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import structlog

from penstock.errors import printable, without_password
from penstock.runtime.clock import Clock, SystemClock, iso_time
from penstock.runtime.tracebacks import from_the_program

Format = Literal["console", "json"]
#: Binds fields to every event that the calling thread logs inside a ``with`` block.
bound_fields = structlog.contextvars.bound_contextvars

_ROOT = "penstock"
#: Context that distinguishes events of the same name; other context only describes them.
_IDENTIFYING = ("stream_id", "host", "executor_id", "location", "path", "listener", "plugin", "estimator", "operation")
_MAX_REMEMBERED = 1000
# In this order, before an event's other fields.
_FIRST = ("batch_time", "output_op_id", "stream_id", "receiver_id", "epoch")


class LogThrottle:
    """Structlog processor that drops repetitions of an event logged with ``throttle_s=…``.

    Within that many seconds of an event it drops further ones of the same logger, name and identifying context
    (``stream_id``, ``host``, ``path``, …). The next one that passes carries their number as ``suppressed``.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        # By identity, oldest first: when the event last passed (ms, monotonic), and the number suppressed since.
        self._passed: OrderedDict[tuple[Any, ...], tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> str:
        return "throttle"

    def reset(self, clock: Clock | None = None) -> None:
        """Forget all events, so that each passes again; for tests, which may set the clock as well."""
        with self._lock:
            self._clock = clock or SystemClock()
            self._passed.clear()

    def __call__(
        self, _logger: Any, _method: str, event_dict: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        throttle_s = event_dict.pop("throttle_s", None)
        if throttle_s is None:
            return event_dict
        identity = (
            event_dict.get("logger"),
            event_dict.get("event"),
            *(str(event_dict.get(name)) for name in _IDENTIFYING),
        )
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            passed_ms, suppressed = self._passed.get(identity, (None, 0))
            if passed_ms is not None and now_ms - passed_ms < throttle_s * 1000:
                self._passed[identity] = (passed_ms, suppressed + 1)
                raise structlog.DropEvent
            self._passed[identity] = (now_ms, 0)
            self._passed.move_to_end(identity)
            if len(self._passed) > _MAX_REMEMBERED:
                self._passed.popitem(last=False)
        return {**event_dict, "suppressed": suppressed} if suppressed else event_dict


throttle = LogThrottle()


class _Process:
    """Format, fields of every event, and levels of single components of this process's log."""

    format: Format = "console"
    fields: Mapping[str, Any] = {}
    #: Names of the components that have a logger.
    components: ClassVar[set[str]] = set()
    levels: Mapping[str, str] = {}


def _complete(_logger: Any, _method: str, event_dict: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add the process's fields, write ``batch_time`` as ISO 8601, and begin tracebacks with the program's frame."""
    for name, value in _Process.fields.items():
        event_dict.setdefault(name, value)
    batch_time = event_dict.get("batch_time")
    if isinstance(batch_time, int):
        event_dict["batch_time"] = iso_time(batch_time)
    error = event_dict.get("exc_info")
    if error is True:
        error = sys.exception()
    if isinstance(error, BaseException):
        event_dict["exc_info"] = (type(error), error, from_the_program(error.__traceback__))
    return event_dict


_console = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, sort_keys=False)
_json = structlog.processors.JSONRenderer(default=str)


def _render(logger: Any, method: str, event_dict: structlog.typing.EventDict) -> str | bytes:
    """Write an event in the process's format: without passwords, as text that UTF-8 can encode.

    The fields that many events share come first.
    """
    event_dict = {name: event_dict[name] for name in _FIRST if name in event_dict} | dict(sorted(event_dict.items()))
    for name, value in event_dict.items():
        if isinstance(value, str):
            event_dict[name] = printable(without_password(value))
        # JSON has no infinity.
        elif _Process.format == "json" and isinstance(value, float) and not math.isfinite(value):
            event_dict[name] = str(value)
    if _Process.format == "json":
        return _json(logger, method, event_dict)
    # Redundant on the application's own console.
    event_dict.pop("app_id", None)
    return _console(logger, method, event_dict)


_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    throttle,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _complete,
    structlog.processors.format_exc_info,
    _render,
]


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The structured logger of a component, ``penstock.<name>``.

    An event may be rate-limited: ``log.warning("receivers paused", host=host, throttle_s=60)``.
    """
    _Process.components.add(name)
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"{_ROOT}.{name}"),
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return logger


def components() -> frozenset[str]:
    """The names of the components that have a logger in this process."""
    return frozenset(_Process.components)


def configure(level: str, format: Format = "console", levels: Mapping[str, str] | None = None, **fields: Any) -> None:
    """Set up the log of this process, again for each context and each receiver.

    ``levels`` are the lowest levels of single components, by name; all others have ``level``. ``fields`` are added to
    every event that has none of that name.
    """
    _Process.format = format
    _Process.fields = fields
    levels = levels or {}
    for component in {*_Process.levels, *levels}:
        logging.getLogger(f"{_ROOT}.{component}").setLevel(levels.get(component, logging.NOTSET))
    _Process.levels = levels
    logger = logging.getLogger(_ROOT)
    logger.setLevel(level)
    lowest = min(logging.getLevelNamesMapping()[name] for name in (level, *levels.values()))
    # Without any handler the standard library prints warnings and errors only.
    if lowest < logging.WARNING and not logger.hasHandlers():
        handler = _StandardError()
        handler.setFormatter(logging.Formatter("%(message)s"))
        # If the root logger gets a handler later (Py4J's first error does that), each line would be printed twice.
        handler.addFilter(lambda _record: not logging.getLogger().hasHandlers())
        logger.addHandler(handler)


def set_level(level: str) -> None:
    """Set the lowest level that this process logs, for every component."""
    configure(level, _Process.format, **_Process.fields)


class _StandardError(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stderr``, as the standard library does without handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
