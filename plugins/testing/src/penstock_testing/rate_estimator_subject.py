"""``RateEstimatorSubject``, the argument of a rate estimator check: makes estimators, simulates workloads."""

from __future__ import annotations

from penstock import RateEstimator
from penstock_testing.check import NotApplicable, fail, fail_raised
from penstock_testing.subject import Subject
from penstock_testing.workload import Workload
from penstock_testing.workload_run import WorkloadRun, simulate


class RateEstimatorSubject(Subject):
    """The rate estimator under test."""

    def make(self, batch_interval_ms: int = 1000) -> RateEstimator:
        """A new estimator."""
        try:
            estimator = self.instance(batch_interval_ms)
        except NotApplicable:
            raise
        except Exception as error:
            fail_raised("make", error, f"batch_interval_ms={batch_interval_ms}")
        if not isinstance(estimator, RateEstimator):
            fail(f"make returned a {type(estimator).__name__}", change="return an instance of a RateEstimator subclass")
        return estimator

    def ask(self, estimator: RateEstimator, batch: tuple[int, int, int, int]) -> float | None:
        """Call ``compute``."""
        try:
            return estimator.compute(*batch)
        except Exception as error:
            fail_raised("compute", error, f"compute{batch}")

    def simulate(self, workload: Workload, seed: int = 1) -> WorkloadRun:
        """Run new estimators, one for each stream, in a closed loop with a workload."""
        run = simulate(workload, self.make, seed)
        if run.failed or run.refused:
            fail(f"compute raised {run.failed} errors and gave {run.refused} invalid rates", f"{workload}, seed {seed}")
        return run
