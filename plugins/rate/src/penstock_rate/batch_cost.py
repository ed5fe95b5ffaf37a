"""The cost of a batch: a fixed time and a time per record, learned from batches.

It fits a line by recursive least squares with forgetting. An outlier is clipped; a second outlier in a row on the same
side means that the cost has changed, and earlier batches then count little.
"""

from __future__ import annotations

from attrs import evolve, frozen

# Weight of a batch relative to the next one.
_MEMORY = 0.9
# Weight of earlier batches after the cost has changed.
_MEMORY_OF_A_CHANGE = 0.02
# The last fixed time counts as a batch without records, with this weight relative to all batches and at most the second
# value. Reason: batches that hardly vary cannot separate the fixed time from the time per record.
_TRUST_IN_FIXED, _MOST_TRUST = 0.1, 1.0
# Relative deviations from the line: initial, minimum, and the multiple that makes a batch an outlier.
_FIRST_DEVIATION, _LEAST_DEVIATION = 0.2, 0.02
_OUTLYING = 4.0


@frozen
class BatchCost:
    """The fitted line, and the deviation of batches from it.

    Attributes:
        fixed_ms: time of a batch without records.
        record_ms: time per record; 0 before the first batch.
        deviation: mean relative deviation.
        outliers: consecutive outliers above the line; negative: below it.
    """

    fixed_ms: float = 0.0
    record_ms: float = 0.0
    deviation: float = _FIRST_DEVIATION
    outliers: int = 0
    # Weighted sums over batches: 1, n, n², t, n·t.
    weight: float = 0.0
    n: float = 0.0
    nn: float = 0.0
    t: float = 0.0
    nt: float = 0.0

    def predict_ms(self, records: float) -> float:
        """Return the expected time of a batch."""
        return self.fixed_ms + self.record_ms * records

    def learn(self, records: int, took_ms: int) -> tuple[BatchCost, bool]:
        """Learn from a batch. Both numbers are above zero.

        Returns:
            The updated cost, and whether the cost has changed: the batch is the second outlier in a row on one side.
        """
        if not self.weight:
            return self._add(records, float(took_ms), _MEMORY), False
        expected_ms = self.predict_ms(records)
        off = (took_ms - expected_ms) / expected_ms
        bound = _OUTLYING * max(self.deviation, _LEAST_DEVIATION) * (1 + self._leverage(records)) ** 0.5
        if abs(off) <= bound:
            outliers, counted_ms = 0, float(took_ms)
        else:
            side = 1 if off > 0 else -1
            outliers = side if self.outliers * side <= 0 else self.outliers + side
            if abs(outliers) >= 2:
                return evolve(self, outliers=0)._add(records, float(took_ms), _MEMORY_OF_A_CHANGE), True
            counted_ms = max(expected_ms * (1 + side * bound), 0.0)
        deviation = self.deviation + (1 - _MEMORY) * (min(abs(off), bound) - self.deviation)
        return evolve(self, outliers=outliers, deviation=deviation)._add(records, counted_ms, _MEMORY), False

    def _add(self, records: int, took_ms: float, memory: float) -> BatchCost:
        """Add a batch to the sums, and fit the line."""
        summed = evolve(
            self,
            weight=memory * self.weight + 1,
            n=memory * self.n + records,
            nn=memory * self.nn + float(records) * records,
            t=memory * self.t + took_ms,
            nt=memory * self.nt + records * took_ms,
        )
        return summed._fit()

    def _leverage(self, records: float) -> float:
        """The variance of the line at a number of records, relative to that of a batch."""
        weight = self.weight + self._trust()
        return max((self.nn - 2 * records * self.n + records * records * weight) / self._determinant(), 0.0)

    def _trust(self) -> float:
        return min(_TRUST_IN_FIXED * self.weight, _MOST_TRUST)

    def _determinant(self) -> float:
        # Always above zero: the trust alone exceeds any rounding error.
        return (self.weight + self._trust()) * self.nn - self.n * self.n

    def _fit(self) -> BatchCost:
        weight, t = self.weight + self._trust(), self.t + self._trust() * self.fixed_ms
        fixed = (self.nn * t - self.n * self.nt) / self._determinant()
        # The fixed time must not be negative, and a record must take some time.
        fixed_ms = min(max(fixed, 0.0), t / weight * 0.99)
        record_ms = max((self.nt - fixed_ms * self.n) / self.nn, 0.01 * t / weight * self.n / self.nn)
        return evolve(self, fixed_ms=fixed_ms, record_ms=record_ms)
