"""Which blocks make a batch, and how they are shared among its tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """The offset at which a batch ends.

    Args:
        blocks: those from ``start`` on, in order.
        start: the offset at which it begins.
        max_rows: most rows; a first block with more is taken alone.
        max_bytes: most bytes; a first block with more is taken alone.
        max_files: most blocks.
        min_rows: fewer rows make no batch yet.

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


def partitions_of(blocks: Iterable[NumberedBlock], partition_bytes: int) -> list[list[NumberedBlock]]:
    """Share blocks among partitions, in order: each has blocks up to a number of bytes, and one block at least."""
    found: list[list[NumberedBlock]] = []
    size = 0
    for block in blocks:
        if not found or size + block.num_bytes > partition_bytes:
            found.append([])
            size = 0
        found[-1].append(block)
        size += block.num_bytes
    return found
