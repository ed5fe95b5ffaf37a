"""The rate estimator ``stepwise`` passes the conformance checks."""

from penstock_testing import Capabilities, RateEstimatorSuite


class TestStepwise(RateEstimatorSuite):
    name = "stepwise"
    capabilities = Capabilities(restores=True, min_rate=1)
