"""Logging: structlog on top of the standard library's ``penstock`` logger.

Owns the processors. Never configures structlog or the root logger for the program around it: WARNING and above reach
standard error as the standard library does it, lower levels after ``set_level`` (``spark.penstock.log.level``).
"""

from __future__ import annotations

import logging
from typing import Any

import structlog

_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0),
]


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the structured logger of a component, ``penstock.<name>``."""
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"penstock.{name}"),
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return logger


def set_level(level: str) -> None:
    """Set the level below which Penstock is silent, in this process."""
    logger = logging.getLogger("penstock")
    logger.setLevel(level)
    # Without any handler the standard library prints warnings only: give the lower levels a way out.
    if logger.getEffectiveLevel() < logging.WARNING and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        # Whoever gives the root logger a handler later (Py4J does, by its first error) would have each line twice.
        handler.addFilter(lambda _record: not logging.getLogger().hasHandlers())
        logger.addHandler(handler)
