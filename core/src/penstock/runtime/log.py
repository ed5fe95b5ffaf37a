"""Logging: structlog on top of the standard library's ``penstock`` logger, with rate-limited events.

Never configures structlog or the root logger for the program around it. WARNING and above reach standard error as the
standard library does it, lower levels after ``set_level`` (``spark.penstock.log.level``).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from penstock.runtime.clock import Clock, SystemClock

#: Context that distinguishes events of the same name; other context only describes them.
_IDENTIFYING = ("stream_id", "host", "executor_id", "location", "path", "listener", "plugin", "estimator", "operation")
_MAX_REMEMBERED = 1000


class LogThrottle:
    """Structlog processor that drops repetitions of an event logged with ``throttle_s=…``.

    Within that many seconds of an event it drops further ones of the same logger, name and identifying context
    (``stream_id``, ``host``, ``path``, …). The next one that passes carries their number as ``suppressed``.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        # For each identity, oldest first: when it last passed (ms, monotonic), and the number suppressed since.
        self._passed: OrderedDict[tuple[Any, ...], tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> str:
        """Pickle the process's throttle by name, so that a program may send a logger to an executor."""
        return "throttle"

    def reset(self, clock: Clock | None = None) -> None:
        """Forget all events, so that each passes again; for tests, which may set the clock as well."""
        with self._lock:
            self._clock = clock or SystemClock()
            self._passed.clear()

    def __call__(
        self, _logger: Any, _method: str, event_dict: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        """Pass an event on, or drop it.

        Raises:
            structlog.DropEvent: the event repeats one that was logged less than ``throttle_s`` ago.
        """
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


def write_batch_time(_logger: Any, _method: str, event_dict: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Structlog processor that writes ``batch_time``, ms since the epoch, as ISO 8601 in UTC, exact to the ms."""
    batch_time = event_dict.get("batch_time")
    if isinstance(batch_time, int):
        time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=batch_time)
        event_dict["batch_time"] = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return event_dict


_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    throttle,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    write_batch_time,
    structlog.processors.format_exc_info,
    structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0),
]


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The structured logger of a component, ``penstock.<name>``.

    An event may be rate-limited: ``log.warning("receivers paused", host=host, throttle_s=60)``.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"penstock.{name}"),
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return logger


def set_level(level: str) -> None:
    """Set the lowest level that this process logs."""
    logger = logging.getLogger("penstock")
    logger.setLevel(level)
    # Without any handler the standard library prints warnings only: lower levels need one.
    if logger.getEffectiveLevel() < logging.WARNING and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        # If the root logger gets a handler later (Py4J's first error does that), each line would be printed twice.
        handler.addFilter(lambda _record: not logging.getLogger().hasHandlers())
        logger.addHandler(handler)
