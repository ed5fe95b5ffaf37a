"""Reads blocks inside a task: from the block's file if this host can read it, otherwise by Arrow Flight.

Modules that need structlog, Flight or cattrs are imported only to fetch a block: they slow down a worker's start.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from attrs import frozen

from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.errors import BlockDamagedError, BlockGoneError, BlockUnreachableError, WireError
from penstock.runtime.retry import Backoff, retry
from penstock.storage.uri import is_remote

if TYPE_CHECKING:
    import structlog

    from penstock.wire.token import Token

_ASK_TIMEOUT_MS = 5000
# Timeout of a task's search for a block that no endpoint serves; a relaunched receiver usually serves it in time. The
# searching task occupies a slot, which that receiver may need.
_SEARCH_S = 5.0
_WITHOUT_IT = "With spark.penstock.blocks.onLost=skip batches run without lost blocks"

R = TypeVar("R")


@frozen
class ReadBlocks:
    """Partition function from block references to records."""

    token: Token
    # ``grpc://host:port`` of the tracker's endpoint, which knows the locations of blocks; empty if there is none.
    driver_location: str = ""
    skips_lost: bool = False

    def __call__(self, _index: int, partitions: Iterable[tuple[BlockReference, ...]]) -> BlockRecords:
        """The records of a partition's blocks; nothing is read yet."""
        return BlockRecords(self.batches(partitions))

    def batches(self, partitions: Iterable[tuple[BlockReference, ...]]) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition's blocks or pieces, in the order of the references.

        Raises ``BlockGoneError`` for a lost block unless it is skipped, or ``BlockUnreachableError``.
        """
        for reference in itertools.chain.from_iterable(partitions):
            try:
                batches = self._read(reference)
            except BlockGoneError as error:
                self._report_lost(reference, error)
                if not self.skips_lost:
                    raise
                _log().warning("lost block skipped", block_id=reference.block_id, records=reference.num_records)
                continue
            # An error in the middle of a block fails the task, and Spark retries it: parts of blocks are never skipped.
            yield from batches if reference.records is None else arrow_form.piece(batches, *reference.records)

    def _read(self, reference: BlockReference) -> Iterator[pa.RecordBatch]:
        """A block's record batches, the first of which has been read."""
        try:
            return _with_first_read(read_block(reference, self.token))
        except BlockDamagedError:
            raise
        except (BlockGoneError, BlockUnreachableError) as error:
            # A block in the write-ahead log is available to all hosts or to none.
            if not self.driver_location or reference.checksum is not None:
                raise
            return self._search(reference, error)

    def _search(self, reference: BlockReference, error: Exception) -> Iterator[pa.RecordBatch]:
        """Ask the driver for the block's location and fetch it from there: a relaunched receiver may serve it again.

        Only a block that no host serves is lost. After a timeout the task fails, so that Spark retries it.
        """
        from penstock.blocks.block_transfer import BlockSource, FindBlock, fetch_block
        from penstock.wire.client import address_towards

        asked = reference.source

        def attempt() -> Iterator[pa.RecordBatch]:
            nonlocal asked, error
            try:
                here = address_towards(self.driver_location)
                answer = self._ask(FindBlock(reference.block_id, here), BlockSource)
            except WireError as unknown:
                raise BlockUnreachableError(f"{error}; the driver does not say where it is: {unknown}") from None
            # The right endpoint is up and does not have the block.
            if answer.source == asked and asked and isinstance(error, BlockGoneError):
                raise error
            if answer.is_gone:
                raise BlockGoneError(str(error))
            if answer.source and answer.source != asked:
                asked = answer.source
                try:
                    return _with_first_read(fetch_block(reference, asked, self.token))
                except BlockUnreachableError as unreachable:
                    error = unreachable
            raise BlockUnreachableError(str(error))

        return retry(
            attempt,
            Backoff(first_ms=50, longest_ms=1000),
            timeout_ms=_SEARCH_S * 1000,
            retry_if=lambda failure: isinstance(failure, BlockUnreachableError),
        )

    def _report_lost(self, reference: BlockReference, error: BlockGoneError) -> None:
        from penstock.blocks.block_transfer import BlocksLost, LostBlock
        from penstock.wire.json_codec import Reply

        if not self.driver_location:
            return
        lost = LostBlock(reference.block_id, reference.stream_id, reference.num_records, str(error))
        try:
            self._ask(BlocksLost([lost]), Reply)
        except WireError as unreported:
            _log().warning("lost block not reported", block_id=reference.block_id, reason=str(unreported))

    def _ask(self, message: object, reply_kind: type[R]) -> R:
        from penstock.wire.client import Client

        with closing(Client(self.driver_location, self.token, _ASK_TIMEOUT_MS, retry=False)) as driver:
            return driver.ask(message, reply_kind)


@frozen
class ReadPartition:
    """Partition function from pickled references, or indices of ``references``, to records or record batches."""

    read: ReadBlocks
    references: tuple[bytes, ...] = ()

    def __call__(self, _index: int, elements: Iterable[int | bytes]) -> BlockRecords:
        return BlockRecords(self.batches(elements))

    def batches(self, elements: Iterable[int | bytes]) -> Iterator[pa.RecordBatch]:
        """The record batches of a partition."""
        return self.read.batches(
            pickle.loads(self.references[element] if isinstance(element, int) else element) for element in elements
        )


class BlockRecords:
    """The records of a partition: an iterator over Python objects, or their number or columns without creating any."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches
        self._records = arrow_form.records(batches)

    def __iter__(self) -> Iterator[Any]:
        return self._records

    def __next__(self) -> Any:
        return next(self._records)

    def count_records(self) -> int:
        """The number of records; no record may have been read."""
        return sum(map(arrow_form.num_records, self.batches))


def read_block(reference: BlockReference, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches from the location in its reference.

    Raises:
        BlockGoneError: neither its file nor its host has it.
        BlockDamagedError: its file is corrupt.
        BlockUnreachableError: its host does not answer.
        OSError: its file exists or may exist, and cannot be read now.
    """
    if is_remote(reference.path) or Path(reference.path).exists():
        try:
            reader = arrow_form.open_block_file(reference.path, reference.checksum)
        except BlockDamagedError as error:
            raise BlockDamagedError(f"{error}. {_WITHOUT_IT}") from None
        return map(reader.get_batch, range(reader.num_record_batches))
    lost = f"block {reference.block_id} ({reference.num_records} records) is lost: its file {reference.path} is not"
    if reference.checksum is not None:
        raise BlockGoneError(
            f"{lost} in the receiver write-ahead log, or this host does not mount the checkpoint directory. "
            f"{_WITHOUT_IT}"
        )
    if not reference.source:
        raise BlockGoneError(
            f"{lost} on this host, and no receiver runs on the host that stored it. The receiver write-ahead log "
            f"(spark.streaming.receiver.writeAheadLog.enable=true) keeps blocks when a host is lost. {_WITHOUT_IT}"
        )
    from penstock.blocks.block_transfer import fetch_block

    return fetch_block(reference, reference.source, token)


def _log() -> structlog.stdlib.BoundLogger:
    from penstock.runtime.log import get_logger

    return get_logger("block_reader")


def _with_first_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the first batch now, so that an unreadable block fails here; return all batches."""
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)
