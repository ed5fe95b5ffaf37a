"""Blocks in files, as receivers store them, as the batches of a stream: without receivers and their slots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from attrs import evolve
from tests.helpers.functions import graph_of

from penstock import DStream, StreamingContext, StreamInputInfo
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.graph.input_dstreams import ReceiverInputDStream
from penstock.spark.rdds import LocatedPartition
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks

#: The partitions of a batch; each is a list of blocks: columnar batches, or lists of records.
StoredBatch = Sequence[Sequence[Any]]


class StoredBlocks:
    """What a started graph knows of received blocks.

    Args:
        folder: the blocks' files are written there.
        interval_ms: the batch interval.
    """

    def __init__(self, folder: Path, interval_ms: int) -> None:
        self._folder = folder
        self._interval_ms = interval_ms
        self._zero_ms = 0
        self._batches: dict[int, list[list[LocatedPartition]]] = {}
        self.reader = ReadBlocks(Token.generate())

    def put(self, stream_id: int, batches: Sequence[StoredBatch]) -> None:
        """Write the batches of a stream; a list of records that is there repeatedly is one file."""
        written: dict[int, BlockReference] = {}

        def reference(block_id: str, block: Any) -> BlockReference:
            if id(block) not in written:
                written[id(block)] = self._write(block_id, block)
            return written[id(block)]

        self._batches[stream_id] = [
            [
                LocatedPartition(
                    tuple(reference(f"{stream_id}-{n}-{p}-{b}", block) for b, block in enumerate(partition))
                )
                for p, partition in enumerate(batch)
            ]
            for n, batch in enumerate(batches)
        ]

    def _write(self, block_id: str, records: Any) -> BlockReference:
        table = arrow_form.from_columns(records) if isinstance(records, pa.Table) else arrow_form.encode(records)
        path = self._folder / f"{block_id}.arrow"
        with path.open("wb") as file:
            arrow_form.write_table(table, file)
        return BlockReference(block_id, str(path), len(records), "")

    def start(self, zero_ms: int) -> None:
        """Note the time after which the batches follow."""
        self._zero_ms = zero_ms

    def partitions(self, batch_time_ms: int, stream_ids: Sequence[int], slots: int) -> list[LocatedPartition]:
        """The blocks of a batch; none after the last batch."""
        number = (batch_time_ms - self._zero_ms) // self._interval_ms - 1
        found = [self._batches[stream_id] for stream_id in stream_ids]
        return [partition for batches in found if number < len(batches) for partition in batches[number]]

    def input_info(self, batch_time_ms: int, stream_id: int) -> StreamInputInfo:
        """The number of records of a batch."""
        partitions = self.partitions(batch_time_ms, [stream_id], 1)
        counts = (reference.num_records for partition in partitions for reference in partition.element)
        return StreamInputInfo(stream_id, sum(counts))


class StoredInput(ReceiverInputDStream):
    """A stream of received blocks without its receiver."""

    def __init__(self, ssc: StreamingContext, blocks: StoredBlocks, batches: Sequence[StoredBatch]) -> None:
        super().__init__(graph_of(ssc), None)
        self._blocks = blocks
        blocks.put(self.id, batches)

    def start(self) -> None:
        assert self.graph.zero_time_ms is not None
        self._blocks.start(self.graph.zero_time_ms)
        self.graph.connect(evolve(self.graph.runtime, received_blocks=cast(Any, self._blocks)))


def stored_stream(ssc: StreamingContext, blocks: StoredBlocks, batches: Sequence[StoredBatch]) -> DStream[Any]:
    """A stream whose n-th batch is the n-th of these."""
    return DStream(StoredInput(ssc, blocks, batches), ssc)
