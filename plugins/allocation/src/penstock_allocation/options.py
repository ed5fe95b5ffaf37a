"""The configuration of executor allocation: Spark's keys ``spark.streaming.dynamicAllocation.*``."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from penstock.helpers import PositiveDurationS


def _positive(_options: object, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{attribute.name}={value!r}: must be greater than 0")


def _above_down(options: AllocationOptions, attribute: Attribute[Any], value: Any) -> None:
    if value <= options.scalingDownRatio:
        raise ValueError(f"{attribute.name}={value!r}: must be above scalingDownRatio={options.scalingDownRatio!r}")


def _at_least_min(options: AllocationOptions, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and options.minExecutors is not None and value < options.minExecutors:
        raise ValueError(f"{attribute.name}={value!r}: must be at least minExecutors={options.minExecutors!r}")


@frozen(kw_only=True)
class AllocationOptions:
    """Options of the manager; names and defaults are Spark's.

    Attributes:
        enabled: whether executors are requested and released.
        testing: ignored; Spark's allows local mode, which has no executors.
        minExecutors: least number of executors; ``None`` for as many as the receivers and one more task need.
        maxExecutors: largest number of executors; ``None`` for no limit.
        scalingInterval: seconds between two decisions.
        scalingUpRatio: processing time as a part of the batch interval from which executors are requested.
        scalingDownRatio: that up to which one is released.
    """

    enabled: bool = False
    testing: bool = False
    minExecutors: int | None = field(default=None, validator=_positive)
    maxExecutors: int | None = field(default=None, validator=[_positive, _at_least_min])
    scalingInterval: PositiveDurationS = 60
    scalingDownRatio: float = field(default=0.3, validator=_positive)
    scalingUpRatio: float = field(default=0.9, validator=[_positive, _above_down])
