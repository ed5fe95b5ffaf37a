"""``RecoveredBatches``: the batches with which the generator of a recovered run begins."""

from __future__ import annotations

from attrs import frozen


@frozen
class RecoveredBatches:
    """What the checkpoint says about batches.

    Attributes:
        zero_time_ms: zero time of the graph.
        last_time_ms: the youngest batch that was generated.
        pending: generated batches that were not complete.
        state_ms: states are recomputed for all batches after this one; ``None`` without state.
    """

    zero_time_ms: int
    last_time_ms: int
    pending: frozenset[int]
    state_ms: int | None

    def due(self, start_ms: int, interval_ms: int) -> list[int]:
        """The batches to generate before ``start_ms``: pending ones and those of the downtime, oldest first."""
        downtime = range(self.last_time_ms + interval_ms, start_ms, interval_ms)
        return sorted({*self.pending, *downtime})
