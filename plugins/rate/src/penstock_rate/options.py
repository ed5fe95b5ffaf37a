"""Validators that the options of several estimators share."""

from __future__ import annotations

import math

from attrs import Attribute


def positive(_options: object, attribute: Attribute[float], value: float) -> None:
    """Accept finite numbers above zero only."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name}={value!r}: must be a finite number greater than 0")


def not_negative(_options: object, attribute: Attribute[float], value: float) -> None:
    """Accept finite numbers of zero or more only."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{attribute.name}={value!r}: must be a finite number, at least 0")


def checked_interval_ms(batch_interval_ms: int) -> int:
    """Return a valid batch interval.

    Raises:
        ValueError: the interval is zero or negative.
    """
    if batch_interval_ms <= 0:
        raise ValueError(f"the batch interval must be greater than zero, not {batch_interval_ms!r} ms")
    return batch_interval_ms
