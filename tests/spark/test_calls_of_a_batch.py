"""How often a batch calls the JVM, and how many stages its job has: counted, not timed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import add
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark import SparkContext

from penstock import Block, Receiver, StreamInputInfo
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph, GraphRuntime
from penstock.graph.input_dstreams import ReceiverInputDStream
from penstock.spark.cluster import use_this_python
from penstock.spark.rdds import LocatedPartition, num_partitions
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks

pytestmark = pytest.mark.spark

# PySpark makes about 15 for one job.
MOST_CALLS_OF_A_JOB = 25


class Silent(Receiver[Any]):
    def onStart(self) -> None:
        """Receives nothing."""


class Received:
    """Every batch has the same partitions of one block each."""

    reader = ReadBlocks(Token("t"))

    def __init__(self, folder: Path, *partitions: list[str]) -> None:
        handler = LocalBlockHandler(folder / "blocks")
        self._partitions = []
        for number, lines in enumerate(partitions):
            stored = handler.store(Block(f"b{number}", 0, len(lines), arrow_form.encode(lines)))
            reference = BlockReference(stored.block_id, stored.path, len(lines), "")
            self._partitions.append(LocatedPartition((reference,)))

    def partitions(self, batch_time_ms: int, stream_ids: Sequence[int], slots: int) -> list[LocatedPartition]:
        return self._partitions

    def input_info(self, batch_time_ms: int, stream_id: int) -> StreamInputInfo:
        return StreamInputInfo(stream_id, len(self._partitions))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that this thread sends to the JVM; the release of objects is not among them."""
    calls: list[str] = []
    send, thread = ClientServerConnection.send_command, threading.current_thread()

    def noted(connection: Any, command: str) -> Any:
        if threading.current_thread() is thread and not command.startswith("m\n"):
            calls.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    return calls


def word_count(sc: SparkContext, received: Received, found: list[Any]) -> DStreamGraph:
    """A started graph; its output appends the sorted counts."""
    use_this_python(sc)
    graph = DStreamGraph(sc, 1000)
    lines: DStream[str] = DStream(ReceiverInputDStream(graph, Silent()), cast(Any, None))
    counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add)
    counts.foreachRDD(lambda rdd: found.append((num_partitions(rdd), sorted(rdd.collect()))))
    lines.foreachRDD(lambda rdd: found.append(rdd.count()))
    graph.connect(GraphRuntime(received_blocks=cast(Any, received)))
    graph.start(0)
    return graph


def test_settled_word_count_calls_the_jvm_for_its_job_only(sc: SparkContext, tmp_path: Path, calls: list[str]) -> None:
    found: list[Any] = []
    graph = word_count(sc, Received(tmp_path, ["a b", "b"]), found)
    for job in graph.generate_jobs(1000):
        job.run()
    calls.clear()
    words, _count = graph.generate_jobs(2000)
    assert calls == []
    words.run()
    assert 0 < len(calls) <= MOST_CALLS_OF_A_JOB, calls
    assert found == [(1, [("a", 1), ("b", 2)]), 2, (1, [("a", 1), ("b", 2)])]


def test_batch_in_several_partitions_is_shuffled_into_the_free_slots(sc: SparkContext, tmp_path: Path) -> None:
    found: list[Any] = []
    for job in word_count(sc, Received(tmp_path, ["a b", "b"], ["b c"]), found).generate_jobs(1000):
        job.run()
    slots = sc.defaultParallelism - 1  # one is the receiver's
    assert found == [(slots, [("a", 1), ("b", 3), ("c", 1)]), 3]


def test_batch_without_blocks_has_no_partitions(sc: SparkContext, tmp_path: Path) -> None:
    found: list[Any] = []
    for job in word_count(sc, Received(tmp_path), found).generate_jobs(1000):
        job.run()
    assert found == [(0, []), 0]
