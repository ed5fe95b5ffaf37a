"""Chooses the blocks of a batch. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_structured.block_directory import NumberedBlock


def end_of_batch(
    blocks: Sequence[NumberedBlock],
    start: int,
    *,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    max_files: int | None = None,
    min_rows: int = 0,
) -> int:
    """Return the offset at which a batch ends.

    Args:
        blocks: the blocks from ``start`` on, in order.
        start: the offset at which the batch begins.
        max_rows: maximum rows; a larger first block is a batch by itself.
        max_bytes: maximum bytes; a larger first block is a batch by itself.
        max_files: maximum number of blocks.
        min_rows: minimum rows; with fewer there is no batch yet.

    Returns:
        The number after the last block of the batch; ``start`` when there is none yet.
    """
    end, rows, num_bytes = start, 0, 0
    for count, block in enumerate(blocks, 1):
        rows, num_bytes = rows + block.rows, num_bytes + block.num_bytes
        exceeds = (
            (max_rows is not None and rows > max_rows)
            or (max_bytes is not None and num_bytes > max_bytes)
            or (max_files is not None and count > max_files)
        )
        if exceeds and end > start:
            rows -= block.rows
            break
        end = block.number + 1
        if exceeds:
            break
    return end if rows >= min_rows else start
