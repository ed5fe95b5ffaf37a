"""The configuration of executor allocation: Spark's keys ``spark.streaming.dynamicAllocation.*``."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from penstock.spi import PositiveDurationS


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
    """Options of the manager; names and defaults are Spark's."""

    enabled: bool = field(default=False, metadata={"help": "Whether executors are requested and released."})
    testing: bool = field(
        default=False, metadata={"help": "Ignored. In Spark it allows local mode, which has no executors."}
    )
    minExecutors: int | None = field(
        default=None,
        validator=_positive,
        metadata={"help": "Least number of executors; never fewer than the receivers and one more task need."},
    )
    maxExecutors: int | None = field(
        default=None,
        validator=[_positive, _at_least_min],
        metadata={"help": "Largest number of executors. None: no limit."},
    )
    scalingInterval: PositiveDurationS = field(default=60, metadata={"help": "Seconds between two decisions."})
    scalingDownRatio: float = field(
        default=0.3,
        validator=_positive,
        metadata={"help": "Processing time as a part of the batch interval up to which an executor is released."},
    )
    scalingUpRatio: float = field(
        default=0.9,
        validator=[_positive, _above_down],
        metadata={"help": "Processing time as a part of the batch interval from which executors are requested."},
    )
