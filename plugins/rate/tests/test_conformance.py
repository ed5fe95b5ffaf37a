"""`pid`, `fixed` and `model` pass the conformance checks of rate estimators."""

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock_rate.conformance import FixedSuite, ModelSuite, PIDSuite


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
