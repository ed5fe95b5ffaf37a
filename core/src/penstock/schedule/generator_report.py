"""``GeneratorReport``: how the making of batches went so far.

Owns two frozen values, all times in milliseconds of the engine's clock. Made on the generator's loop, read by anybody.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Phase:
    """How long one step took, over all batches.

    Attributes:
        count: how often it was done.
        total_ms: together, milliseconds.
        max_ms: the longest, milliseconds.
    """

    count: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0

    def plus(self, took_ms: float) -> Phase:
        """With one more."""
        return Phase(self.count + 1, self.total_ms + took_ms, max(self.max_ms, took_ms))


@frozen
class GeneratorReport:
    """How the making of batches went so far.

    Attributes:
        allocation: received blocks were given to a batch.
        generation: the graph made a batch's jobs; the program's functions for ``transform`` run here.
        submission: the jobs were queued, a batch given up for them if need be.
        clean_up: what old batches held was freed.
        checkpoint: what a later run needs was gathered; it is written elsewhere.
        late_ticks: ticks that fired when the next one was due already.
        skipped_ticks: ticks that did not fire; their data is in the next batch.
        dropped_batches: batches given up before they began, because too many were pending.
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
