"""``Attempts``: how many runs have begun a batch.

Owns the count, from what a checkpoint says. Never too low: jobs may run before the checkpoint is written that knows of
them, so that a batch behind the youngest that is known counts as begun if it was due when this run began.
Read on the generator's loop and on the job pool.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from penstock.checkpoint.manifest import Checkpoint


@frozen
class Attempts:
    """How many runs have begun a batch, this one among them.

    Attributes:
        known: by time, of batches that were begun and not complete.
        behind_ms: the youngest batch that is known of.
        until_ms: when this run began.
        begun: how many runs may have begun a batch between the two.
    """

    known: Mapping[int, int] = field(factory=dict)
    behind_ms: int = -1
    until_ms: int = -1
    begun: int = 1

    @classmethod
    def behind(cls, found: Checkpoint, now_ms: int) -> Attempts:
        """Those of a run that goes on from a checkpoint, now."""
        known = {time_ms: count + 1 for time_ms, count in found.pending.items()}
        return cls(known, found.last_time_ms, now_ms, found.begun + 1)

    def of(self, time_ms: int) -> int:
        """How many have begun a batch."""
        return self.known.get(time_ms, self.begun if self.behind_ms < time_ms <= self.until_ms else 1)
