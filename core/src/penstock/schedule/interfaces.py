"""What the JobGenerator needs of others: the receivers' blocks, and where checkpoints are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ReceiverInput(Protocol):
    """The blocks that receivers have stored, allocated to batches."""

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Allocate all unallocated blocks to a batch."""
        ...

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        """Forget the batches strictly older than a time and, if asked to, delete their blocks."""
        ...

    def processed(self, until_ms: int) -> None:
        """Note that all batches up to a time are complete."""
        ...

    def pause(self, paused: bool) -> None:
        """Pause the receivers, or let them resume."""
        ...

    @property
    def has_unallocated_blocks(self) -> bool:
        """Whether a block is not allocated to any batch yet."""
        ...

    @property
    def last_allocated_ms(self) -> int:
        """The last batch that blocks were allocated to; -1 for none."""
        ...


class Checkpoints(Protocol):
    """Where checkpoints are written."""

    def begin(self, zero_time_ms: int) -> None:
        """Write zero time, before the first batch is generated."""
        ...

    def save(self, last_time_ms: int, pending: Sequence[int], needed_ms: int) -> None:
        """Have a checkpoint written; returns at once.

        Args:
            last_time_ms: the youngest batch.
            pending: batches that are not complete.
            needed_ms: blocks of batches strictly older than this are no longer needed.
        """
        ...
