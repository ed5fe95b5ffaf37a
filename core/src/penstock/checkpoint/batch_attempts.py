"""``BatchAttempts``: how many runs have begun a batch.

Never too low: a batch's jobs may run before the checkpoint that mentions the batch is written. So every batch after the
youngest one in the checkpoint counts as begun if it was due when this run started.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from penstock.checkpoint.manifest import Checkpoint


@frozen
class BatchAttempts:
    """How many runs have begun a batch, this one included. Read on the generator's loop and on the job pool.

    Attributes:
        known: attempts by batch time in ms, of batches that were begun and are not complete.
        after_ms: the youngest batch that the checkpoint mentions.
        until_ms: when this run started.
        later: number of runs that may have begun a batch between the two.
    """

    known: Mapping[int, int] = field(factory=dict)
    after_ms: int = -1
    until_ms: int = -1
    later: int = 1

    @classmethod
    def after(cls, found: Checkpoint, now_ms: int) -> BatchAttempts:
        """The attempts of a run that recovers from a checkpoint now."""
        known = {time_ms: count + 1 for time_ms, count in found.pending.items()}
        return cls(known, found.last_time_ms, now_ms, found.later_attempts + 1)

    def of(self, time_ms: int) -> int:
        """How many runs have begun the batch."""
        return self.known.get(time_ms, self.later if self.after_ms < time_ms <= self.until_ms else 1)
