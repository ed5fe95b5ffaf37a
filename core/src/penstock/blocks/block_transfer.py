"""Blocks over the wire: a host serves the files of its blocks, and the tasks of other hosts find and fetch them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa
from attrs import frozen

from penstock.blocks.block import BlockReference
from penstock.errors import BlockGoneError, BlockUnreachableError, WireError
from penstock.wire import client
from penstock.wire.json_codec import StreamNotFoundError
from penstock.wire.token import Tls, Token

# The timeout for one record batch: a host that vanished must not hold a batch for ever.
_FETCH_TIMEOUT_S = 300.0

#: The remedy when a receiver's endpoint cannot be reached, from the driver or from a task.
RECEIVER_PORT_ADVICE = (
    "If that host runs, the driver and all executors must reach it at that address: let the port, which "
    "spark.penstock.receiver.port fixes, through firewalls"
)
_PORT_ADVICE = (
    "The address must be this host's. spark.penstock.receiver.port and spark.port.maxRetries set the ports to try; "
    "0 of the former lets the system choose"
)


@frozen
class FindBlock:
    """Task to driver: the task's host, at ``address``, lacks the block's file. Answered by ``BlockSource``."""

    block_id: str
    address: str


@frozen
class BlockSource:
    """The answer to ``FindBlock``: an endpoint, empty if none serves the block now; ``is_gone`` if none ever will."""

    source: str
    is_gone: bool = False


@frozen
class LostBlock:
    """A block that a task could not read, and the error message."""

    block_id: str
    stream_id: int
    num_records: int
    reason: str


@frozen
class BlocksLost:
    """Task to driver: these blocks are lost."""

    blocks: list[LostBlock]


OpenFile = Callable[[str], pa.ipc.RecordBatchFileReader]


def open_block(open_file: OpenFile, block_id: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Open a block for an endpoint, which sends it straight from its memory-mapped file; ``block_id`` is the ticket."""
    try:
        reader = open_file(block_id)
    except BlockGoneError as error:
        raise StreamNotFoundError(str(error)) from None
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def source_of(location: str, launch: str) -> str:
    """The ``source`` of blocks that a launch serves at a location: tasks derive its token from theirs."""
    return f"{location}#{launch}"


def fetch_block(reference: BlockReference, source: str, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches from an endpoint on the host that stored it.

    Raises ``BlockGoneError`` if the endpoint does not have the block, and ``BlockUnreachableError`` if it does not
    answer or belongs to another application by now.
    """
    location, _hash, launch = source.partition("#")
    token = token.derive(launch) if launch else token
    try:
        yield from client.fetch(location, reference.block_id, token, _FETCH_TIMEOUT_S, advice=RECEIVER_PORT_ADVICE)
    except WireError as error:
        kind = BlockGoneError if isinstance(error, StreamNotFoundError) else BlockUnreachableError
        raise kind(
            f"block {reference.block_id} ({reference.num_records} records) cannot be fetched from {location}: {error}"
        ) from None


class BlockServer:
    """Serve the blocks of this host from construction until ``stop``, for engines without a ReceiverTracker.

    Tasks on other hosts read the blocks with ``read_block`` and the server's token.

    Args:
        host: the address to listen on, which other hosts reach.
        open_file: opens the file of a block by its id, on a thread of the server; raises ``BlockGoneError`` if there is
            none.
        conf: configuration by full key: ``spark.penstock.receiver.port``, ``spark.port.maxRetries`` and
            ``spark.penstock.wire.tls.…`` apply.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid, or a TLS file cannot be used.
        WireError: the address is not this host's, or every port is in use.
    """

    def __init__(self, host: str, open_file: OpenFile, conf: Mapping[str, str] | None = None) -> None:
        # Python workers import this module to fetch blocks; logging and configuration would slow them down.
        from penstock.conf import Settings
        from penstock.wire.endpoint import Endpoint, Ports

        settings = Settings.parse(conf or {})
        #: The token that callers must send.
        self.token = Token.generate(Tls.of(settings))
        ports = Ports(settings.receiver_port, settings.port_max_retries, _PORT_ADVICE)
        self._endpoint = Endpoint(host, self.token, {}, partial(open_block, open_file), ports)
        #: ``grpc://host:port``, or ``grpc+tls://host:port``.
        self.location = self.token.location(host, self._endpoint.port)

    def stop(self) -> None:
        """Refuse new calls, finish those in progress, free the port. Idempotent."""
        self._endpoint.stop()
