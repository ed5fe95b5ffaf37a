"""Reading blocks inside a task: from the file where it is on this host, by Arrow Flight from elsewhere.

Owns the order of the ways. Runs in the Python worker of a batch's task; holds one record batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_store import open_file
from penstock.errors import BlockGoneError
from penstock.wire.client import fetch_block
from penstock.wire.token import Token


@frozen
class ReadBlocks:
    """Partition function: from references to records.

    Attributes:
        token: shown to the endpoint of a block's host.
    """

    token: Token

    def __call__(self, _index: int, partitions: Iterable[tuple[BlockReference, ...]]) -> Iterator[Any]:
        """Read every block of a partition, in the order of arrival."""
        return arrow_form.records(batch for references in partitions for batch in self._batches(references))

    def _batches(self, references: Iterable[BlockReference]) -> Iterator[pa.RecordBatch]:
        for reference in references:
            yield from read_block(reference, self.token)


def read_block(reference: BlockReference, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches.

    Raises:
        BlockGoneError: neither its file nor its host has it.
    """
    if Path(reference.path).exists():
        reader = open_file(reference.path)
        return map(reader.get_batch, range(reader.num_record_batches))
    if not reference.source:
        raise BlockGoneError(
            f"block {reference.block_id} ({reference.num_records} records) is lost: its file {reference.path} is not "
            "on this host and no receiver runs on the host that stored it"
        )
    return fetch_block(reference, token)
