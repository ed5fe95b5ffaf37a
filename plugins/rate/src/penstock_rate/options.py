"""What the options of several estimators have in common: checks of numbers.

Owns the validators and their words. Never reads configuration. Runs wherever options are made.
"""

from __future__ import annotations

import math

from attrs import Attribute


def positive(_options: object, attribute: Attribute[float], value: float) -> None:
    """Refuse all but finite numbers above zero."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be a finite number greater than zero, not {value!r}")


def not_negative(_options: object, attribute: Attribute[float], value: float) -> None:
    """Refuse all but finite numbers from zero up."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{attribute.name} must be a finite number, zero or greater, not {value!r}")


def checked_interval_ms(batch_interval_ms: int) -> int:
    """Return a batch interval that an estimator can divide by.

    Raises:
        ValueError: it is zero or negative.
    """
    if batch_interval_ms <= 0:
        raise ValueError(f"the batch interval must be greater than zero, not {batch_interval_ms!r} ms")
    return batch_interval_ms
