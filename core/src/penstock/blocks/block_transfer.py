"""Blocks over the wire: a host serves the files of its blocks, the tasks of other hosts fetch them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from penstock.blocks.block import BlockReference
from penstock.errors import BlockGoneError, BlockUnreachableError, WireError
from penstock.wire import client
from penstock.wire.json_codec import StreamNotFoundError
from penstock.wire.token import Token

# The timeout for one block: a host that vanished must not hold a batch for ever.
_FETCH_TIMEOUT_S = 300.0

#: The remedy when a receiver's endpoint cannot be reached, from the driver or from a task.
RECEIVER_PORT_ADVICE = (
    "If that host runs, the driver and all executors must reach it at that address: let the port, which "
    "spark.penstock.receiver.port fixes, through firewalls"
)


def open_block(
    open_file: Callable[[str], pa.ipc.RecordBatchFileReader], block_id: str
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Open a block for an endpoint, which sends it straight from its memory-mapped file.

    Args:
        open_file: opens the file of a block by its id; raises ``BlockGoneError`` if there is none.
        block_id: the ticket.

    Raises:
        StreamNotFoundError: the block does not exist here.
    """
    try:
        reader = open_file(block_id)
    except BlockGoneError as error:
        raise StreamNotFoundError(str(error)) from None
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def fetch_block(reference: BlockReference, source: str, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches from an endpoint on the host that stored it.

    Raises:
        BlockGoneError: the endpoint does not have the block.
        BlockUnreachableError: the endpoint does not answer, or belongs to another application by now.
    """
    try:
        yield from client.fetch(source, reference.block_id, token, _FETCH_TIMEOUT_S, advice=RECEIVER_PORT_ADVICE)
    except WireError as error:
        kind = BlockGoneError if isinstance(error, StreamNotFoundError) else BlockUnreachableError
        raise kind(
            f"block {reference.block_id} ({reference.num_records} records) cannot be fetched from {source}: {error}"
        ) from None
