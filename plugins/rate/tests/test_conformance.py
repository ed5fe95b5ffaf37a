"""The estimators and the RateController pass the conformance checks."""

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock_rate.conformance import FixedSuite, ModelSuite, PIDSuite, RateControllerSuite


class TestPID(PIDSuite):
    pass


class TestPIDDamped(PIDSuite):
    """With less than half of Spark's gain it damps noise."""

    options: ClassVar[Mapping[str, Any]] = {"proportional": 0.3}
    expected_failures: ClassVar[Mapping[str, str]] = {}


class TestModel(ModelSuite):
    pass


class TestFixed(FixedSuite):
    pass


class TestRateController(RateControllerSuite):
    pass


class TestRateControllerWithModel(RateControllerSuite):
    conf: ClassVar[Mapping[str, str]] = {"spark.streaming.backpressure.rateEstimator": "model"}
