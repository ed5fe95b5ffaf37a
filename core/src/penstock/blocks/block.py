"""A block: the records that a receiver stored together, before it is stored, for the driver and for a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock.blocks import arrow_form


@frozen
class Block:
    """Records about to be stored.

    Attributes:
        block_id: unique in the application, ``input-<stream>-<epoch>-<number>``.
        table: the records in their Arrow form.
        metadata: JSON values that the receiver passed with the records.
    """

    block_id: str
    stream_id: int
    num_records: int
    table: pa.Table = field(repr=False)
    metadata: dict[str, Any] | None = field(default=None, repr=False)

    def records(self) -> Iterator[Any]:
        """Yield the records as Python values."""
        return arrow_form.records(self.table.to_batches())

    def stored(self, path: str, num_bytes: int, checksum: int | None = None) -> StoredBlock:
        """The description of this block once it is in a file."""
        return StoredBlock(
            self.block_id, self.stream_id, self.num_records, num_bytes, path, self.metadata, checksum=checksum
        )


@frozen
class StoredBlock:
    """A block in a file.

    Attributes:
        num_bytes: size of the file.
        path: the file's path on the host that stored it, or its URI if all hosts can read it.
        metadata: JSON values that the receiver passed with the records.
        checksum: CRC-32 of the file's bytes, which readers verify; ``None`` skips the verification.
        arrival_ms: when the receiver got the earliest of the records; set when the block is reported to the driver.
        traceparents: W3C trace contexts of some of its records, for listeners; a plugin that wraps the hook sets them.
    """

    block_id: str
    stream_id: int
    num_records: int
    num_bytes: int
    path: str
    metadata: dict[str, Any] | None = None
    checksum: int | None = None
    arrival_ms: int | None = None
    traceparents: tuple[str, ...] = field(default=(), converter=tuple[str, ...])


@frozen
class BlockReference:
    """The location of a ``StoredBlock``, or of a piece of it, for a task.

    Attributes:
        path: the file's path, read directly on a host where it exists, or its URI.
        source: ``grpc://host:port`` of an endpoint on the block's host, with ``#`` and the name of the launch that
            serves the block if its token is derived; empty if none is up.
        records: a piece of the block: the number of its first record, and of the record after its last (``None``: to
            the block's end). ``None`` for the whole block.
    """

    block_id: str
    path: str
    num_records: int
    source: str
    stream_id: int = 0
    checksum: int | None = None
    records: tuple[int, int | None] | None = None
