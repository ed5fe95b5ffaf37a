"""``UnfinishedBatches``: the batches of a run that are not complete, as one value, and what a checkpoint has of it."""

from __future__ import annotations

from attrs import frozen


@frozen
class UnfinishedBatches:
    """The batches that are not complete at one moment.

    A batch that moves on while the value is collected is in both of its places.

    Attributes:
        generated_ms: the youngest generated batch; zero time before the first.
        completed_ms: the youngest complete batch; -1 before the first.
        first_due_ms: the oldest batch that is due and not submitted; ``None`` if there is none.
        late: due batches that were due before this run started.
        begun: batches that an earlier run has begun; some of them may be complete.
        pending: submitted batches.
        dropped: dropped batches whose data the next batch reads.
        failed: failed batches, which run again.
    """

    generated_ms: int
    completed_ms: int = -1
    first_due_ms: int | None = None
    late: tuple[range, ...] = ()
    begun: frozenset[int] = frozenset()
    pending: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()

    @property
    def never_begun(self) -> list[range]:
        """Late batches that no run has generated. Those that an earlier run has begun are ranges of their own."""
        return [batches for batches in self.late if batches[0] not in self.begun]

    @property
    def to_run(self) -> list[int]:
        """The batches that a recovered run generates again: begun, pending and failed ones, oldest first."""
        never_begun = self.never_begun
        begun = self.begun.intersection(batches[0] for batches in self.late)
        submitted = (time_ms for time_ms in self.pending | self.failed if not any(time_ms in r for r in never_begun))
        return sorted(begun.union(submitted))

    @property
    def oldest_ms(self) -> int:
        """The oldest batch whose data may still be read, failed batches aside."""
        return min([self.completed_ms, *self._waiting])

    def done_ms(self, interval_ms: int) -> int:
        """The youngest batch up to which all are complete or failed."""
        return min([self.completed_ms, *(time_ms - interval_ms for time_ms in self._waiting)])

    @property
    def _waiting(self) -> list[int]:
        due = [] if self.first_due_ms is None else [self.first_due_ms]
        return [*due, *self.pending, *self.dropped]
