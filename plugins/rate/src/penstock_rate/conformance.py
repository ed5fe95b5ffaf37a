"""The conformance suites of the estimators: ``penstock plugins check`` runs them, and the tests of this plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock.testing import Capabilities, RateEstimatorSuite


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
