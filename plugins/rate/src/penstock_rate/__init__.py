"""Rate control for Penstock: the estimators, and the listener that steers receivers by them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock import RateEstimatorSpec, hookimpl
from penstock_rate.fixed import FixedOptions, FixedRateEstimator
from penstock_rate.model import ModelOptions, ModelRateEstimator
from penstock_rate.pid import PIDOptions, PIDRateEstimator
from penstock_rate.rate_controller import RateController, controllers

if TYPE_CHECKING:
    from penstock import StreamingContext

__all__ = [
    "FixedOptions",
    "FixedRateEstimator",
    "ModelOptions",
    "ModelRateEstimator",
    "PIDOptions",
    "PIDRateEstimator",
    "RateController",
]


@hookimpl
def rate_estimators() -> Iterable[RateEstimatorSpec]:
    """Offer the estimators."""
    return [
        RateEstimatorSpec("pid", PIDRateEstimator, PIDOptions, "Spark's: the rate of the last batch, less what waits"),
        RateEstimatorSpec("fixed", FixedRateEstimator, FixedOptions, "the same rate, whatever the batches take"),
        RateEstimatorSpec("model", ModelRateEstimator, ModelOptions, "what a batch costs, learned; aims at a share"),
    ]


@hookimpl
def listeners(context: "StreamingContext") -> Iterable[RateController]:
    """One controller a receiver stream, when ``spark.streaming.backpressure.enabled`` is set."""
    return controllers(context)
