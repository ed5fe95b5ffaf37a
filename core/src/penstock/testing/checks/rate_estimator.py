"""Rate estimator checks RE-01 to RE-24: answers, bounds, behaviour in a closed loop with a simulated plant."""

from __future__ import annotations

import math

from penstock.testing.check import check, fail
from penstock.testing.kit import RateEstimatorKit


@check("RE-01", "must", change="return None when there is no estimate, and clamp every other answer to a minimum")
def none_or_finite_positive(kit: RateEstimatorKit) -> None:
    """Every answer is None or a finite number above 0.

    Purpose: a rate of 0, NaN or infinity stops a receiver or removes its limit.
    Method: 200 seeded batches with sizes from 0 to 10^6 records and delays from 0 to 10 s.
    Condition: each answer is None or a finite number above 0.
    Requires: nothing.
    """
    estimator = kit.make()
    for number in range(1, 201):
        batch = (
            number * 1000,
            kit.rng.choice([0, 1, 1000, 10**6]),
            kit.rng.randrange(10_000),
            kit.rng.randrange(10_000),
        )
        rate = estimator.compute(*batch)
        if rate is not None and not (isinstance(rate, int | float) and math.isfinite(rate) and rate > 0):
            fail(f"compute answered {rate!r}", f"compute{batch}")
