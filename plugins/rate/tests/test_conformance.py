"""The estimators and the RateController pass the conformance checks."""

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock import ListenerContext
from penstock.testing import Capabilities, ListenerProbe, ListenerSuite, RateEstimatorSuite
from penstock_rate import listeners


class TestPID(RateEstimatorSuite):
    name = "pid"
    capabilities = Capabilities(restores=True, min_rate=100)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "RE-15": "with Spark's default, proportional=1, the rate follows each batch completely"
    }


class TestPIDDamped(RateEstimatorSuite):
    """With less than half of Spark's gain it damps noise."""

    name = "pid"
    options: ClassVar[Mapping[str, Any]] = {"proportional": 0.3}
    capabilities = Capabilities(restores=True, min_rate=100)


class TestModel(RateEstimatorSuite):
    name = "model"
    capabilities = Capabilities(restores=True, min_rate=0.001, max_rate=1e15)


class TestFixed(RateEstimatorSuite):
    name = "fixed"
    options: ClassVar[Mapping[str, Any]] = {"rate": 1000}
    capabilities = Capabilities(adapts=False, shares=False, min_rate=1000, max_rate=1000)


class TestRateController(ListenerSuite):
    def make(self, context: ListenerContext) -> ListenerProbe:
        controllers = list(listeners(context))

        def snapshot() -> Mapping[str, Any]:
            return {"rates": [[estimate.rate for estimate in each.history()] for each in controllers]}

        return ListenerProbe(controllers, snapshot)


class TestRateControllerWithModel(TestRateController):
    conf: ClassVar[Mapping[str, str]] = {"spark.streaming.backpressure.rateEstimator": "model"}
