"""Reading blocks inside a task: from the file where this host can read it, by Arrow Flight from elsewhere.

Owns the order of the ways, and what happens when none leads to the block. Runs in the Python worker of a batch's task;
holds one record batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.blocks import arrow_form, place
from penstock.blocks.block import BlockReference
from penstock.blocks.block_file import open_file
from penstock.errors import BlockGoneError, WireError
from penstock.log import get_logger
from penstock.wire.client import Client, fetch_block
from penstock.wire.messages import BlocksLost, LostBlock, Reply
from penstock.wire.token import Token

log = get_logger("block_reader")

_TELL_MS = 5000


@frozen
class ReadBlocks:
    """Partition function: from references to records.

    Attributes:
        token: shown to the endpoint of a block's host, and to the driver's.
        driver_location: where blocks that are gone are told of; empty for nowhere.
        skips_lost: go on without them.
    """

    token: Token
    driver_location: str = ""
    skips_lost: bool = False

    def __call__(self, _index: int, partitions: Iterable[tuple[BlockReference, ...]]) -> Iterator[Any]:
        """Read every block of a partition, in the order of arrival."""
        return arrow_form.records(batch for references in partitions for batch in self._batches(references))

    def _batches(self, references: Iterable[BlockReference]) -> Iterator[pa.RecordBatch]:
        for reference in references:
            try:
                batches = read_block(reference, self.token)
                first = next(batches, None)
            except BlockGoneError as error:
                self._tell(reference, error)
                if not self.skips_lost:
                    raise
                log.warning("block left out", block=reference.block_id, records=reference.num_records)
                continue
            if first is not None:
                yield first
                # What breaks off in the middle is no block to leave out: the task fails, and is tried again.
                yield from batches

    def _tell(self, reference: BlockReference, error: BlockGoneError) -> None:
        if not self.driver_location:
            return
        lost = LostBlock(reference.block_id, reference.stream_id, reference.num_records, str(error))
        driver = Client(self.driver_location, self.token, _TELL_MS, retry=False)
        try:
            driver.ask(BlocksLost([lost]), Reply)
        except WireError as untold:
            log.warning("driver not told of a lost block", block=reference.block_id, error=str(untold))
        finally:
            driver.close()


def read_block(reference: BlockReference, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches.

    Raises:
        BlockGoneError: neither its file nor its host has it.
        BlockDamagedError: its file is not what was stored.
        OSError: its file is there or may be, and cannot be read now.
    """
    if place.is_remote(reference.path) or Path(reference.path).exists():
        reader = open_file(reference.path, reference.checksum)
        return map(reader.get_batch, range(reader.num_record_batches))
    if reference.checksum is not None:
        raise BlockGoneError(
            f"block {reference.block_id} ({reference.num_records} records) is lost: its file {reference.path} is not "
            "in the block log, or this host does not have the checkpoint directory"
        )
    if not reference.source:
        raise BlockGoneError(
            f"block {reference.block_id} ({reference.num_records} records) is lost: its file {reference.path} is not "
            "on this host and no receiver runs on the host that stored it"
        )
    return fetch_block(reference, token)
