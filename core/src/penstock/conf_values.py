"""What a configuration value may look like: the parsers, from text to a value with a unit.

Owns the spellings, which are Spark's. Never knows which key a value is for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import frozen

T = TypeVar("T")

_MS_PER_UNIT = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES_PER_UNIT = {"b": 1} | {
    prefix + suffix: 1 << 10 * power for power, prefix in enumerate("kmgtp", 1) for suffix in ("", "b")
}
_LARGEST = 1 << 63
_QUANTITY = re.compile(r"\s*(-?\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def _quantity(text: str, units: Mapping[str, float], default_unit: str) -> int:
    match = _QUANTITY.fullmatch(text)
    unit = (match[2].lower() or default_unit) if match else ""
    if not match or unit not in units:
        raise ValueError(f"is not a whole number with one of the units {', '.join(units)}")
    quantity = int(match[1])
    if abs(quantity) > _LARGEST:
        raise ValueError("is too large")
    return int(quantity * units[unit])


def duration_ms(text: str) -> int:
    """Read a Spark time string (``200ms``, ``2s``, ``1h``; a bare number is milliseconds)."""
    return _quantity(text, _MS_PER_UNIT, "ms")


def size_bytes(text: str) -> int:
    """Read a Spark size string (``64m``, ``1g``; a bare number is bytes)."""
    return _quantity(text, _BYTES_PER_UNIT, "b")


def boolean(text: str) -> bool:
    """Read ``true`` or ``false``."""
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError("is neither true nor false")
    return text.strip().lower() == "true"


def names(text: str) -> tuple[str, ...]:
    """Read a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def rate_per_s(text: str) -> float:
    """Read a rate in records/s. Zero and below mean unlimited, as Spark documents it."""
    rate = float(text)
    if math.isnan(rate):
        raise ValueError("is not a number")
    return rate if rate > 0 else math.inf


def level(text: str) -> str:
    """Read the name of a logging level."""
    if text.strip().upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise ValueError("is none of DEBUG, INFO, WARNING, ERROR, CRITICAL")
    return text.strip().upper()


def one_of(*choices: str) -> Callable[[str], str]:
    """Make a parser that takes one of a few words."""

    def parse_choice(text: str) -> str:
        if text.strip() not in choices:
            raise ValueError(f"is none of {', '.join(choices)}")
        return text.strip()

    return parse_choice


@frozen
class SizeLimit:
    """A limit in bytes, or as a share of a disk; neither: there is none."""

    num_bytes: int | None = None
    share: float | None = None

    def of(self, disk_bytes: int) -> int | None:
        """The limit in bytes for a disk of a size; ``None`` for no limit, or for a size that is not known."""
        if self.share is not None:
            return int(disk_bytes * self.share) if disk_bytes else None
        return self.num_bytes


def size_or_share(text: str) -> SizeLimit:
    """Read a Spark size string, or a percentage of a disk; 0 of either is no limit."""
    if text.strip().endswith("%"):
        percent = float(text.strip()[:-1])
        if not 0 <= percent <= 100:
            raise ValueError("is not between 0% and 100%")
        return SizeLimit(share=percent / 100) if percent else SizeLimit()
    num_bytes = not_negative(size_bytes)(text)
    return SizeLimit(num_bytes) if num_bytes else SizeLimit()


def time_zone(text: str) -> ZoneInfo | None:
    """Read the name of a time zone; nothing is none."""
    if not text:
        return None
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not the name of a time zone") from None


def positive(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make of a parser one that refuses zero and below."""

    def parse_positive(text: str) -> T:
        value = parse(text)
        if not value > 0:  # type: ignore[operator]  # only used with numbers
            raise ValueError("must be greater than zero")
        return value

    return parse_positive


def not_negative(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make of a parser one that refuses what is below zero."""

    def parse_not_negative(text: str) -> T:
        value = parse(text)
        if value < 0:  # type: ignore[operator]  # only used with numbers
            raise ValueError("must not be negative")
        return value

    return parse_not_negative
