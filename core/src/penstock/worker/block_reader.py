"""Reading blocks inside a task: from the file where this host can read it, by Arrow Flight from elsewhere.

Owns the order of the ways, and what happens when none leads to the block: it is called gone only if the driver, too,
knows of no other way. Else it is looked for, for some seconds; then the task fails, and Spark tries it again. Runs in
the Python worker of a batch's task; holds one record batch at a time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from attrs import frozen

from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_file import open_file
from penstock.blocks.block_transfer import fetch_block
from penstock.blocks.messages import BlocksLost, BlockSource, FindBlock, LostBlock
from penstock.errors import BlockDamagedError, BlockGoneError, BlockUnreachableError, WireError
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff
from penstock.storage.uri import is_remote
from penstock.wire.client import Client, address_towards
from penstock.wire.messages import Reply
from penstock.wire.token import Token

log = get_logger("block_reader")

_ASK_MS = 5000
# The longest that a block is looked for which nobody serves: a receiver that is launched again is back by then. The
# task occupies a slot meanwhile, which that receiver may need.
_SEARCH_S = 5.0

R = TypeVar("R")


@frozen
class ReadBlocks:
    """Partition function: from references to records.

    Attributes:
        token: shown to the endpoint of a block's host, and to the driver's.
        driver_location: where it is asked for blocks that are not where they were, and told of those that are gone;
            empty for nowhere.
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
                batches = self._read(reference)
            except BlockGoneError as error:
                self._tell(reference, error)
                if not self.skips_lost:
                    raise
                log.warning("block left out", block=reference.block_id, records=reference.num_records)
                continue
            # What breaks off in the middle is no block to leave out: the task fails, and is tried again.
            yield from batches

    def _read(self, reference: BlockReference) -> Iterator[pa.RecordBatch]:
        """A block's record batches, of which the first is there.

        Raises:
            BlockGoneError: neither its file nor its host has it.
            BlockUnreachableError: its host may have it, and cannot be asked now.
            OSError: its file is there or may be, and cannot be read now.
        """
        try:
            return _begun(read_block(reference, self.token))
        except BlockDamagedError:
            raise
        except (BlockGoneError, BlockUnreachableError) as error:
            # In the log it is for all hosts, or for none.
            if not self.driver_location or reference.checksum is not None:
                raise
            return self._searched(reference, error)

    def _searched(self, reference: BlockReference, failed: Exception) -> Iterator[pa.RecordBatch]:
        """A block that is not where it was when its batch was made: others have come there, or will in a moment."""
        backoff, until = Backoff(first_ms=50, longest_ms=1000), time.monotonic() + _SEARCH_S
        asked = reference.source
        while True:
            now = self._find(reference, failed)
            # An endpoint that is in place, and does not have it, knows.
            if now.source == asked and asked and isinstance(failed, BlockGoneError):
                raise failed
            if now.is_gone:
                raise BlockGoneError(str(failed))
            if now.source and now.source != asked:
                asked = now.source
                try:
                    return _begun(fetch_block(reference, asked, self.token))
                except BlockUnreachableError as error:
                    failed = error
            pause_s = backoff.next_ms() / 1000
            if time.monotonic() + pause_s >= until:
                raise BlockUnreachableError(str(failed))
            time.sleep(pause_s)

    def _find(self, reference: BlockReference, failed: Exception) -> BlockSource:
        address = address_towards(self.driver_location)
        try:
            return self._ask(FindBlock(reference.block_id, address), BlockSource)
        except WireError as error:
            raise BlockUnreachableError(f"{failed}; the driver does not say where it is: {error}") from None

    def _tell(self, reference: BlockReference, error: BlockGoneError) -> None:
        if not self.driver_location:
            return
        lost = LostBlock(reference.block_id, reference.stream_id, reference.num_records, str(error))
        try:
            self._ask(BlocksLost([lost]), Reply)
        except WireError as untold:
            log.warning("driver not told of a lost block", block=reference.block_id, error=str(untold))

    def _ask(self, message: object, reply_kind: type[R]) -> R:
        driver = Client(self.driver_location, self.token, _ASK_MS, retry=False)
        try:
            return driver.ask(message, reply_kind)
        finally:
            driver.close()


def read_block(reference: BlockReference, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches, from where the reference says.

    Raises:
        BlockGoneError: neither its file nor its host has it.
        BlockDamagedError: its file is not what was stored.
        BlockUnreachableError: its host does not answer.
        OSError: its file is there or may be, and cannot be read now.
    """
    if is_remote(reference.path) or Path(reference.path).exists():
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
    return fetch_block(reference, reference.source, token)


def _begun(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, with the first one read."""
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)
