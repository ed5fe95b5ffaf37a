"""Messages between the tasks that read blocks and the driver."""

from __future__ import annotations

from attrs import frozen


@frozen
class FindBlock:
    """Task to driver: where is this block available now? Answered by ``BlockSource``.

    Attributes:
        block_id: the block's id.
        address: address of the asking host, which does not have the block's file.
    """

    block_id: str
    address: str


@frozen
class BlockSource:
    """The answer to ``FindBlock``.

    Attributes:
        source: ``grpc://host:port`` of an endpoint that serves the block; empty if there is none now.
        is_gone: no endpoint serves the block, and none will.
    """

    source: str
    is_gone: bool = False


@frozen
class LostBlock:
    """A block that could not be read.

    Attributes:
        block_id: the block's id.
        stream_id: id of its input stream.
        num_records: number of its records.
        reason: the error message of the read.
    """

    block_id: str
    stream_id: int
    num_records: int
    reason: str


@frozen
class BlocksLost:
    """Task to driver: these blocks are lost."""

    blocks: list[LostBlock]
