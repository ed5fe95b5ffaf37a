"""Rate control for Penstock: the estimators, and the listener that sets the receivers' rates."""

from collections.abc import Iterable

from penstock import ListenerContext, RateEstimatorSpec, hookimpl
from penstock_rate.fixed import FixedOptions, FixedRateEstimator
from penstock_rate.model import ModelOptions, ModelRateEstimator
from penstock_rate.pid import PIDOptions, PIDRateEstimator
from penstock_rate.rate_controller import RateController, controllers

__all__ = [
    "FixedOptions",
    "FixedRateEstimator",
    "ModelOptions",
    "ModelRateEstimator",
    "PIDOptions",
    "PIDRateEstimator",
    "RateController",
]

#: It settles in fewer batches than the others, and uses more of the capacity.
penstock_production = {"spark.streaming.backpressure.rateEstimator": "model"}


@hookimpl
def rate_estimators() -> Iterable[RateEstimatorSpec]:
    """Offer the estimators."""
    return [
        RateEstimatorSpec(
            "pid", PIDRateEstimator, PIDOptions, "Spark's: the last batch's processing rate, less the backlog's part"
        ),
        RateEstimatorSpec("fixed", FixedRateEstimator, FixedOptions, "one constant rate"),
        RateEstimatorSpec(
            "model", ModelRateEstimator, ModelOptions, "learns what a batch costs; aims at a share of the interval"
        ),
    ]


@hookimpl
def listeners(context: ListenerContext) -> Iterable[RateController]:
    """Offer a controller for each receiver stream, when ``spark.streaming.backpressure.enabled`` is set."""
    return controllers(context)
