"""``GeneratorReport``: statistics on generating batches; all times in ms of the engine's clock."""

from __future__ import annotations

from attrs import frozen


@frozen
class Phase:
    """How long one phase took, over all batches.

    Attributes:
        count: how often it ran.
        total_ms: all runs together.
        max_ms: the longest run.
    """

    count: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0

    def plus(self, took_ms: float) -> Phase:
        """The phase with one more run."""
        return Phase(self.count + 1, self.total_ms + took_ms, max(self.max_ms, took_ms))


@frozen
class GeneratorReport:
    """Statistics on generating batches.

    Attributes:
        allocation: received blocks are allocated to a batch.
        generation: the graph generates a batch's jobs; functions given to ``transform`` run here.
        submission: the jobs are queued, and a batch is dropped for them if need be.
        clean_up: RDDs and blocks of completed batches are released.
        checkpoint: a checkpoint is gathered; another thread writes it.
        late_ticks: ticks that fired after the next one was due.
        skipped_ticks: ticks that did not fire; their data is in the next batch.
        dropped_batches: batches dropped before they started, because too many were pending.
        failed_batches: batches that ended with a failed output; dropped ones do not count.
    """

    allocation: Phase = Phase()
    generation: Phase = Phase()
    submission: Phase = Phase()
    clean_up: Phase = Phase()
    checkpoint: Phase = Phase()
    late_ticks: int = 0
    skipped_ticks: int = 0
    dropped_batches: int = 0
    failed_batches: int = 0
