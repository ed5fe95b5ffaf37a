"""``Resume``: where the generator of a run that goes on from a checkpoint begins.

Owns the values, and which batches are to be made: those that were not complete, and those of the time in between.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Resume:
    """What an earlier run left.

    Attributes:
        zero_time_ms: of its graph.
        last_time_ms: its youngest batch.
        pending: its batches that were not complete.
        tables_ms: the oldest of the batches whose tables are there; ``None`` when nothing is carried on.
        max_pending: while so many batches are pending, no further one of those that are late is made.
        skips_empty: leave out, of the time in between, batches without data that nothing carries on from.
    """

    zero_time_ms: int
    last_time_ms: int
    pending: frozenset[int]
    tables_ms: int | None
    max_pending: int
    skips_empty: bool

    def due(self, start_ms: int, interval_ms: int) -> list[int]:
        """The batches to make before ``start_ms``, oldest first."""
        between = range(self.last_time_ms + interval_ms, start_ms, interval_ms)
        return sorted({*self.pending, *between})
