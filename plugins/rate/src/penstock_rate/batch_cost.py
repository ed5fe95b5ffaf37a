"""What a batch costs: a fixed time and a time a record, learned batch by batch.

Owns a line through the batches seen, by recursive least squares with forgetting. A batch far off the line counts as one
a little off it; when a second follows on the same side, the cost has changed, and what was learned before counts for
little. Never divides by zero, whatever it is told. Runs on the thread of whoever calls it.
"""

from __future__ import annotations

from attrs import define

# What a batch weighs in the line, relative to the one after it.
_MEMORY = 0.9
# The same when the cost has changed.
_MEMORY_OF_A_CHANGE = 0.02
# The last fixed time counts as a batch without records, of this weight relative to all batches, at most of the second:
# time and records that hardly vary tell no fixed time from one a record.
_TRUST_IN_FIXED, _MOST_TRUST = 0.1, 1.0
# Deviations from the line, relative to it: what is expected at first, and at least; and what makes a batch stand out.
_FIRST_DEVIATION, _LEAST_DEVIATION = 0.2, 0.02
_OUTSTANDING = 4.0


@define
class BatchCost:
    """The line, and how far batches are off it.

    Attributes:
        fixed_ms: of a batch without records.
        record_ms: of a record; 0 before the first batch.
        deviation: mean, relative.
        outstanding: batches in a row far above (or, negative, below) the line.
    """

    fixed_ms: float = 0.0
    record_ms: float = 0.0
    deviation: float = _FIRST_DEVIATION
    outstanding: int = 0
    # Sums over batches, by weight: 1, n, n², t, n·t.
    weight: float = 0.0
    n: float = 0.0
    nn: float = 0.0
    t: float = 0.0
    nt: float = 0.0

    def predict_ms(self, records: float) -> float:
        """What a batch would take."""
        return self.fixed_ms + self.record_ms * records

    def learn(self, records: int, took_ms: int) -> bool:
        """Take a batch into account. Both numbers are above zero.

        Returns:
            Whether the cost has changed: the second batch in a row far off on the same side.
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
        """How uncertain the line is there, as a variance relative to that of a batch."""
        weight = self.weight + self._trust()
        return max((self.nn - 2 * records * self.n + records * records * weight) / self._determinant(), 0.0)

    def _trust(self) -> float:
        return min(_TRUST_IN_FIXED * self.weight, _MOST_TRUST)

    def _determinant(self) -> float:
        # Above zero by the trust alone, which is far more than any rounding.
        return (self.weight + self._trust()) * self.nn - self.n * self.n

    def _fit(self) -> None:
        weight, t = self.weight + self._trust(), self.t + self._trust() * self.fixed_ms
        fixed = (self.nn * t - self.n * self.nt) / self._determinant()
        # Neither part of the cost is negative, and a record costs something.
        self.fixed_ms = min(max(fixed, 0.0), t / weight * 0.99)
        self.record_ms = max((self.nt - self.fixed_ms * self.n) / self.nn, 0.01 * t / weight * self.n / self.nn)
