"""Blocks of a receiver for a graph without Spark, and the stream of them, as fixtures."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
from attrs import evolve, frozen
from pyspark.core.rdd import PipelinedRDD
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeRDD

from penstock import DStream, StreamInputInfo
from penstock.graph.input_dstreams import ReceiverInputDStream
from penstock.spark.rdds import LocatedPartition
from penstock.spi import node_of

TEXT = pa.schema([("value", pa.string())])


@frozen
class Reader:
    """Of no records, as a driver has it."""

    schema: pa.Schema | None = TEXT

    def batches(self, partitions: Any) -> Any:
        return iter([] if self.schema is None else [pa.RecordBatch.from_pylist([], self.schema)])

    def __call__(self, _index: int, records: Any) -> Any:
        return records


class Received:
    """Blocks of one partition in every batch but the second."""

    def __init__(self, schema: pa.Schema | None = TEXT) -> None:
        self.reader: Any = Reader(schema)

    def partitions(self, batch_time_ms: int, stream_ids: Any, _slots: int) -> list[LocatedPartition]:
        return [] if batch_time_ms == 2 * INTERVAL_MS else [LocatedPartition(batch_time_ms) for _ in stream_ids]

    def input_info(self, _batch_time_ms: int, stream_id: int) -> StreamInputInfo:
        return StreamInputInfo(stream_id, 1)


@pytest.fixture
def received(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> Received:
    monkeypatch.setattr(
        "penstock.spark.rdds.located_rdd",
        lambda _sc, partitions: FakeRDD([[partition.element] for partition in partitions]),
    )
    monkeypatch.setattr(PipelinedRDD, "persist", lambda rdd, _level: setattr(rdd, "is_cached", True))
    blocks = Received()
    context.graph.connect(evolve(context.graph.runtime, received_blocks=cast(Any, blocks)))
    context.graph.zero_time_ms = 0
    return blocks


@pytest.fixture
def lines(context: FakeContext, received: Received) -> DStream[Any]:
    stream: DStream[Any] = DStream(ReceiverInputDStream(context.graph, object()), context)  # type: ignore[arg-type]
    return stream


def initialized(stream: Any) -> Any:
    node_of(stream).initialize(0)
    node_of(stream).remember(0)
    return node_of(stream)
