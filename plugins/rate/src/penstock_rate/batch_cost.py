"""The cost of a batch: a fixed time and a time for each record, learned from batches.

It fits a line by recursive least squares with forgetting. An outlier is clipped; a second outlier in a row on the same
side means that the cost has changed, and earlier batches then count little.
"""

from __future__ import annotations

from attrs import define

# Weight of a batch relative to the next one.
_MEMORY = 0.9
# The same after the cost has changed.
_MEMORY_OF_A_CHANGE = 0.02
# The last fixed time counts as a batch without records, with this weight relative to all batches, limited to the second
# value: batches that hardly vary cannot separate the fixed time from the time for each record.
_TRUST_IN_FIXED, _MOST_TRUST = 0.1, 1.0
# Relative deviations from the line: initial, minimum, and the multiple that makes a batch an outlier.
_FIRST_DEVIATION, _LEAST_DEVIATION = 0.2, 0.02
_OUTSTANDING = 4.0


@define
class BatchCost:
    """The fitted line, and how far batches deviate from it.

    Attributes:
        fixed_ms: time of a batch without records.
        record_ms: time for each record; 0 before the first batch.
        deviation: mean relative deviation.
        outstanding: consecutive outliers above the line; negative: below it.
    """

    fixed_ms: float = 0.0
    record_ms: float = 0.0
    deviation: float = _FIRST_DEVIATION
    outstanding: int = 0
    # Weighted sums over batches: 1, n, n², t, n·t.
    weight: float = 0.0
    n: float = 0.0
    nn: float = 0.0
    t: float = 0.0
    nt: float = 0.0

    def predict_ms(self, records: float) -> float:
        """The expected time of a batch."""
        return self.fixed_ms + self.record_ms * records

    def learn(self, records: int, took_ms: int) -> bool:
        """Learn from a batch. Both numbers are above zero.

        Returns:
            Whether the cost has changed: the batch is the second outlier in a row on the same side.
        """
        counted_ms, memory, changed = float(took_ms), _MEMORY, False
        if self.weight:
            expected = self.predict_ms(records)
            off = (took_ms - expected) / expected
            bound = _OUTSTANDING * max(self.deviation, _LEAST_DEVIATION) * (1 + self._leverage(records)) ** 0.5
            if abs(off) <= bound:
                self.outstanding = 0
            else:
                side = 1 if off > 0 else -1
                self.outstanding = side if self.outstanding * side <= 0 else self.outstanding + side
                changed = abs(self.outstanding) >= 2
                if changed:
                    memory, self.outstanding = _MEMORY_OF_A_CHANGE, 0
                else:
                    counted_ms = max(expected * (1 + (bound if off > 0 else -bound)), 0.0)
            if not changed:
                self.deviation += (1 - _MEMORY) * (min(abs(off), bound) - self.deviation)
        self.weight = memory * self.weight + 1
        self.n = memory * self.n + records
        self.nn = memory * self.nn + float(records) * records
        self.t = memory * self.t + counted_ms
        self.nt = memory * self.nt + records * counted_ms
        self._fit()
        return changed

    def _leverage(self, records: float) -> float:
        """The variance of the line at a number of records, relative to that of a batch."""
        weight = self.weight + self._trust()
        return max((self.nn - 2 * records * self.n + records * records * weight) / self._determinant(), 0.0)

    def _trust(self) -> float:
        return min(_TRUST_IN_FIXED * self.weight, _MOST_TRUST)

    def _determinant(self) -> float:
        # Above zero: the trust alone exceeds any rounding error.
        return (self.weight + self._trust()) * self.nn - self.n * self.n

    def _fit(self) -> None:
        weight, t = self.weight + self._trust(), self.t + self._trust() * self.fixed_ms
        fixed = (self.nn * t - self.n * self.nt) / self._determinant()
        # The fixed time is not negative, and a record takes some time.
        self.fixed_ms = min(max(fixed, 0.0), t / weight * 0.99)
        self.record_ms = max((self.nt - self.fixed_ms * self.n) / self.nn, 0.01 * t / weight * self.n / self.nn)
