"""Where blocks live: Arrow IPC files in the executor's local directory.

Owns the directory that the run's receivers on this host share: each finds there what the others have stored, and what
earlier launches have. A file appears whole or not at all. Never reads a block into memory to serve it.
``store`` runs on whatever thread stores; reads run on the endpoint's threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from penstock.blocks import block_file
from penstock.blocks.block import Block, StoredBlock
from penstock.errors import BlockGoneError

_SUFFIX = ".arrow"
# A name, never a path: what comes over the wire must not lead out of the directory.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class BlockStore:
    """Write, find and delete the block files below one directory.

    Args:
        directory: of the run; made when the first block is stored.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self, block: Block) -> StoredBlock:
        """Write a block.

        Raises:
            OSError: the disk is full or the directory cannot be written; nothing is left behind.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{block.block_id}{_SUFFIX}"
        partial = path.with_suffix(".partial")
        try:
            with pa.OSFile(str(partial), "wb") as sink:
                block_file.write(block.table, sink)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return StoredBlock(
            block.block_id, block.stream_id, block.num_records, path.stat().st_size, str(path), block.metadata
        )

    def open(self, block_id: str) -> pa.ipc.RecordBatchFileReader:
        """Map a block for reading.

        Raises:
            BlockGoneError: there is no such block here.
        """
        if not _NAME.fullmatch(block_id):
            raise BlockGoneError(f"{block_id[:100]!r} is not the name of a block")
        return block_file.open_file(str(self._directory / f"{block_id}{_SUFFIX}"))

    def delete(self, block_ids: Iterable[str]) -> int:
        """Delete blocks that nothing reads any more; say how many there were."""
        deleted = 0
        for block_id in block_ids:
            path = self._directory / f"{block_id}{_SUFFIX}"
            if _NAME.fullmatch(block_id) and path.exists():
                path.unlink(missing_ok=True)
                deleted += 1
        return deleted
