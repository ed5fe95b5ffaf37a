"""``RateEstimatorKit``, the argument of a rate estimator check: makes estimators and runs them on simulated plants."""

from __future__ import annotations

from penstock.plugins.specs import RateEstimator
from penstock_testing.check import NotApplicable, fail
from penstock_testing.kit import Kit
from penstock_testing.plant import Plant
from penstock_testing.plant_run import PlantRun, simulate


class RateEstimatorKit(Kit):
    """The kit of the rate estimator checks."""

    def make(self, batch_interval_ms: int = 1000) -> RateEstimator:
        """A new estimator.

        Raises:
            CheckFailure: ``make`` raises, or does not return a ``RateEstimator``.
        """
        try:
            estimator = self.subject.instance(batch_interval_ms)
        except NotApplicable:
            raise
        except Exception as error:
            fail(f"make raised {type(error).__name__}: {error}", f"batch_interval_ms={batch_interval_ms}")
        if not isinstance(estimator, RateEstimator):
            fail(f"make returned a {type(estimator).__name__}", change="return an instance of a RateEstimator subclass")
        return estimator

    def ask(self, estimator: RateEstimator, batch: tuple[int, int, int, int]) -> float | None:
        """Call ``compute``.

        Raises:
            CheckFailure: ``compute`` raises.
        """
        try:
            return estimator.compute(*batch)
        except Exception as error:
            fail(f"compute raised {type(error).__name__}: {error}", f"compute{batch}")

    def simulate(self, plant: Plant, seed: int = 1) -> PlantRun:
        """Run new estimators, one for each stream, in a closed loop with a plant.

        Raises:
            CheckFailure: ``compute`` raises, or gives an invalid rate.
        """
        run = simulate(plant, self.make, seed)
        if run.failed or run.refused:
            fail(f"compute raised {run.failed} errors and gave {run.refused} invalid rates", f"{plant}, seed {seed}")
        return run
