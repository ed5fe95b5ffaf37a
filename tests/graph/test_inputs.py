"""The nodes of receiver streams and of queues; without Spark."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from pyspark.core.rdd import PipelinedRDD
from tests.helpers.fake_graph import FakeContext, FakeRDD

from penstock import Receiver, StreamingContext, StreamInputInfo
from penstock.errors import StreamingStateError
from penstock.graph import batch_input
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import GraphRuntime
from penstock.graph.input_dstreams import QueueInputDStream, ReceiverInputDStream
from penstock.spark import rdds
from penstock.spark.rdds import LocatedPartition
from penstock.spi import node_of
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks, ReadPartition

TOKEN = Token("t")


class Received:
    """Blocks of three records a batch, in two partitions."""

    reader = ReadBlocks(TOKEN)

    def input_info(self, batch_time_ms: int, stream_id: int) -> StreamInputInfo:
        return StreamInputInfo(stream_id, batch_time_ms // 10, earliest_arrival=batch_time_ms - 90)

    def partitions(self, batch_time_ms: int, stream_ids: Sequence[int], slots: int) -> list[LocatedPartition]:
        return [LocatedPartition((f"{batch_time_ms}-{stream_id}-{n}",)) for stream_id in stream_ids for n in range(2)]


class Silent(Receiver[Any]):
    def onStart(self) -> None:
        """Receives nothing."""


@pytest.fixture
def reports(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, StreamInputInfo]]:
    """What the streams report; the graph has blocks."""
    reports: list[tuple[int, StreamInputInfo]] = []
    runtime = GraphRuntime(
        received_blocks=cast(Any, Received()),
        report_input=lambda time_ms, info, _count: reports.append((time_ms, info)),
    )
    context.graph.connect(runtime)
    monkeypatch.setattr(PipelinedRDD, "persist", lambda rdd, _level: setattr(rdd, "is_cached", True))
    monkeypatch.setattr(PipelinedRDD, "checkpoint", lambda rdd: setattr(rdd, "is_checkpointed", True))
    monkeypatch.setattr(
        rdds, "located_rdd", lambda _sc, partitions: FakeRDD([[partition.element] for partition in partitions])
    )
    return reports


@pytest.fixture
def received(context: FakeContext) -> ReceiverInputDStream:
    return ReceiverInputDStream(context.graph, Silent())


def test_receiver_stream_reads_the_blocks_of_its_batch(
    received: ReceiverInputDStream, context: FakeContext, reports: list[tuple[int, StreamInputInfo]]
) -> None:
    DStream(received, cast(StreamingContext, context)).foreachRDD(print)
    context.graph.start(0)
    rdd: Any = received.get_or_compute(100)
    references = tuple(pickle.dumps((f"100-0-{n}",), pickle.HIGHEST_PROTOCOL) for n in range(2))
    assert (rdd.func, rdd.getNumPartitions()) == (ReadPartition(ReadBlocks(TOKEN), references), 2)
    # The RDD of the partitions and their locations is created once.
    later: Any = received.get_or_compute(200)
    assert later.prev is rdd.prev
    assert later.prev.collect() == [0, 1]


def test_many_references_do_not_travel_with_each_task(
    received: ReceiverInputDStream,
    context: FakeContext,
    reports: list[tuple[int, StreamInputInfo]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_input, "_SENT_WITH_TASKS_BYTES", 20)
    DStream(received, cast(StreamingContext, context)).foreachRDD(print)
    context.graph.start(0)
    rdd: Any = received.get_or_compute(100)
    assert rdd.func == ReadPartition(ReadBlocks(TOKEN))
    assert [pickle.loads(element) for element in rdd.prev.collect()] == [("100-0-0",), ("100-0-1",)]


def test_input_is_reported_once_for_several_outputs(
    received: ReceiverInputDStream, context: FakeContext, reports: list[tuple[int, StreamInputInfo]]
) -> None:
    context.graph.start(0)
    received.initialize(0)
    for _ in range(3):
        received.get_or_compute(100)
    received.get_or_compute(200)
    assert reports == [
        (100, StreamInputInfo(0, 10, earliest_arrival=10)),
        (200, StreamInputInfo(0, 20, earliest_arrival=110)),
    ]


def test_times_before_the_start_have_no_records_and_no_report(
    received: ReceiverInputDStream, context: FakeContext, reports: list[tuple[int, StreamInputInfo]]
) -> None:
    # Windows reach that far back.
    context.graph.start(1000)
    for time_ms in (900, 1000):
        assert received.compute(time_ms).getNumPartitions() == 0
    assert reports == []


def test_blocks_of_united_receivers_are_packed_together(
    received: ReceiverInputDStream, context: FakeContext, reports: list[tuple[int, StreamInputInfo]]
) -> None:
    first: DStream[Any] = DStream(received, cast(StreamingContext, context))
    others = [
        DStream[Any](ReceiverInputDStream(context.graph, Silent()), cast(StreamingContext, context)) for _ in range(2)
    ]
    united = first.union(others[0]).union(others[1])
    united.foreachRDD(print)
    context.graph.start(0)
    rdd: Any = node_of(united).get_or_compute(100)
    assert [pickle.loads(reference)[0] for reference in rdd.func.references] == [
        f"100-{stream}-{n}" for stream in range(3) for n in range(2)
    ]
    assert node_of(united).batch_inputs(100) == (rdd.blocks,)
    # Each stream reports its own input.
    assert [info.inputStreamId for _time_ms, info in reports] == [0, 1, 2]


@pytest.mark.parametrize("keep", [DStream.cache, lambda lines: lines.checkpoint(0.1)], ids=["cache", "checkpoint"])
def test_records_that_are_kept_are_not_read_from_blocks_again(
    received: ReceiverInputDStream,
    context: FakeContext,
    reports: list[tuple[int, StreamInputInfo]],
    keep: Callable[[DStream[Any]], DStream[Any]],
) -> None:
    lines: DStream[Any] = keep(DStream(received, cast(StreamingContext, context)))
    united = lines.union(lines)
    united.foreachRDD(print)
    context.graph.start(0)
    assert isinstance(node_of(united).get_or_compute(100), FakeRDD)


@pytest.mark.parametrize(("num_bytes", "is_single"), [(2**21 - 1, True), (2**21, False)])
def test_a_large_partition_is_not_reduced_in_one_stage(
    received: ReceiverInputDStream,
    context: FakeContext,
    reports: list[tuple[int, StreamInputInfo]],
    monkeypatch: pytest.MonkeyPatch,
    num_bytes: int,
    is_single: bool,
) -> None:
    context.sparkContext.master = "local[3]"
    monkeypatch.setattr(Received, "partitions", lambda *_: [LocatedPartition(("block",), (), num_bytes)])
    lines: DStream[Any] = DStream(received, cast(StreamingContext, context))
    counts: Any = node_of(lines.map(len).countByValue())
    lines.foreachRDD(print)
    context.graph.start(0)
    rdd = received.get_or_compute(100)
    # Both ways give the same counts. They differ in the number of stages, which the fakes do not have.
    assert counts._is_single(rdd) is is_single


def test_receiver_stream_needs_a_started_context(received: ReceiverInputDStream) -> None:
    with pytest.raises(StreamingStateError, match="only in a started context"):
        received.compute(100)


def test_the_graph_knows_its_receivers(received: ReceiverInputDStream, context: FakeContext) -> None:
    QueueInputDStream(context.graph, deque(), one_at_a_time=True, default=None)
    other = ReceiverInputDStream(context.graph, Silent())
    assert list(context.graph.receivers()) == [(0, received.receiver), (2, other.receiver)]


@pytest.fixture
def queue(context: FakeContext) -> Callable[..., list[list[Any]]]:
    """The batches of a queue of RDDs of one record each."""

    def batches(count: int, one_at_a_time: bool, default: Any = None) -> list[list[Any]]:
        rdds = deque(context.sparkContext.parallelize([n]) for n in range(count))
        stream = QueueInputDStream(context.graph, rdds, one_at_a_time=one_at_a_time, default=default)
        return [stream.compute(time_ms).collect() for time_ms in (100, 200, 300)]

    return batches


def test_a_queue_gives_one_rdd_a_batch_or_all(queue: Callable[..., list[list[Any]]]) -> None:
    assert queue(2, one_at_a_time=True) == [[0], [1], []]
    assert queue(2, one_at_a_time=False) == [[0, 1], [], []]
    assert queue(1, one_at_a_time=False) == [[0], [], []]


def test_an_empty_queue_gives_the_default(queue: Callable[..., list[list[Any]]], context: FakeContext) -> None:
    default = context.sparkContext.parallelize(["d"])
    assert queue(1, one_at_a_time=True, default=default) == [[0], ["d"], ["d"]]
    assert queue(2, one_at_a_time=False, default=default) == [[0, 1], ["d"], ["d"]]
