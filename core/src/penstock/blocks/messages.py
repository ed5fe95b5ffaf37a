"""Messages between the tasks that read blocks and the driver."""

from __future__ import annotations

from attrs import frozen


@frozen
class FindBlock:
    """A batch's task to driver: where can this block be had now? Answered by ``BlockSource``.

    Attributes:
        block_id: of the block.
        address: of the host that asks, on which the block's file is not.
    """

    block_id: str
    address: str


@frozen
class BlockSource:
    """The answer to ``FindBlock``.

    Attributes:
        source: the address of an endpoint that serves the place where the block is; empty when there is none.
        is_gone: there is none, and none will come.
    """

    source: str
    is_gone: bool = False


@frozen
class LostBlock:
    """A block that could not be read, and why."""

    block_id: str
    stream_id: int
    num_records: int
    reason: str


@frozen
class BlocksLost:
    """A batch's task to driver: these blocks are gone."""

    blocks: list[LostBlock]
