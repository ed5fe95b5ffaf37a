"""A block: the records a receiver stored together, and the reference by which a batch finds it.

Owns three values and no behaviour beyond them: ``Block`` (has content, has no home yet), ``StoredBlock`` (has a home;
what the driver is told), ``BlockReference`` (what a batch's partition carries).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock.blocks import arrow_form


@frozen
class Block:
    """Records on their way to the store.

    Attributes:
        block_id: unique in the application, ``input-<stream>-<epoch>-<number>``.
        stream_id: of the receiver's input stream.
        num_records: how many records it holds.
        table: the records in their Arrow form.
        metadata: what the receiver gave with them; JSON values.
    """

    block_id: str
    stream_id: int
    num_records: int
    table: pa.Table = field(repr=False)
    metadata: dict[str, Any] | None = field(default=None, repr=False)

    def records(self) -> Iterator[Any]:
        """The records, as Python values."""
        return arrow_form.records(self.table.to_batches())


@frozen
class StoredBlock:
    """A block that has a home.

    Attributes:
        block_id: unique in the application.
        stream_id: of the receiver's input stream.
        num_records: how many records it holds.
        num_bytes: the size of its file.
        path: the file, on the host that stored it; or the URI of one that all hosts can read.
        metadata: what the receiver gave with the records; JSON values.
        checksum: CRC-32 of the file's bytes, checked by who reads them; ``None`` when it is not known.
    """

    block_id: str
    stream_id: int
    num_records: int
    num_bytes: int
    path: str
    metadata: dict[str, Any] | None = None
    checksum: int | None = None


@frozen
class BlockReference:
    """Where a task finds a block.

    Attributes:
        block_id: unique in the application.
        path: the file, read directly where it exists; or a URI.
        num_records: how many records it holds; for messages.
        source: ``grpc://host:port`` of an endpoint on the block's host, empty when there is none now.
        stream_id: of the receiver's input stream.
        checksum: CRC-32 of the file's bytes, ``None`` when it is not known.
    """

    block_id: str
    path: str
    num_records: int
    source: str
    stream_id: int = 0
    checksum: int | None = None
