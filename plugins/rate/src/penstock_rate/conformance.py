"""Conformance suites of the estimators and the RateController, run by ``penstock plugins check`` and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock import ListenerContext
from penstock_rate.rate_controller import controllers
from penstock_testing import Capabilities, ListenerProbe, ListenerSuite, RateEstimatorSuite


class PIDSuite(RateEstimatorSuite):
    """``pid`` with Spark's defaults."""

    name = "pid"
    capabilities = Capabilities(restores=True, min_rate=100)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "RE-15": "with Spark's default, proportional=1, the rate follows each batch completely"
    }


class ModelSuite(RateEstimatorSuite):
    """``model``."""

    name = "model"
    capabilities = Capabilities(restores=True, min_rate=0.001, max_rate=1e15)


class FixedSuite(RateEstimatorSuite):
    """``fixed``."""

    name = "fixed"
    options: ClassVar[Mapping[str, Any]] = {"rate": 1000}
    capabilities = Capabilities(adapts=False, shares=False, min_rate=1000, max_rate=1000)


class RateControllerSuite(ListenerSuite):
    """The rate controllers of all receiver streams."""

    name = "rate"

    def make(self, context: ListenerContext) -> ListenerProbe:
        rate_controllers = controllers(context)
        return ListenerProbe(
            rate_controllers, lambda: {"rates": [controller.last_rate for controller in rate_controllers]}
        )
