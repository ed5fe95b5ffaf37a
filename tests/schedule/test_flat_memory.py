"""Fifteen hundred batches do not grow the driver's memory; without Spark."""

from __future__ import annotations

import gc
import logging
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import lt
from typing import Any, cast

import pytest
from pyspark import RDD
from tests.helpers import do_nothing, wait_for
from tests.helpers.fake_graph import FakeSparkContext

from penstock import StoredBlock, StreamInputInfo
from penstock.conf import Settings
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph, GraphRuntime
from penstock.graph.input_dstreams import InputDStream
from penstock.listen.events import BatchCompleted
from penstock.listen.listener_bus import ListenerBus
from penstock.schedule.job_generator import JobGenerator
from penstock.schedule.job_scheduler import JobScheduler
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock_testing import ManualClock

INTERVAL_MS, BATCHES, BLOCKS = 100, 1_500, 20
# After this many batches every bounded history is full, above all the ids of the last 10,000 deleted blocks.
SETTLED = 500


SETTINGS = Settings.parse(
    {"spark.penstock.maxPendingBatches": "100", "spark.penstock.onMaxPendingBatches": "drop-oldest"}
)


class NoRDD(RDD[Any]):
    """An RDD without data."""

    def __init__(self) -> None:
        """Without Spark."""

    def unpersist(self, blocking: bool = False) -> NoRDD:
        return self


class Reporting(InputDStream):
    """Reports a batch's records; the first attempt to generate every seventh batch fails."""

    def __init__(self, graph: DStreamGraph, blocks: ReceivedBlockTracker) -> None:
        super().__init__(graph)
        self._blocks = blocks
        self._failed_ms = -1

    def compute(self, time_ms: int) -> RDD[Any]:
        if time_ms % (7 * INTERVAL_MS) == 0 and time_ms != self._failed_ms:
            self._failed_ms = time_ms
            raise ConnectionError("not now")
        count = sum(block.num_records for block in self._blocks.blocks_of_batch(time_ms, 0))
        self.graph.runtime.report_input(time_ms, StreamInputInfo(self.id, count), lambda: count)
        return NoRDD()


class Sliding(InputDStream):
    """Has an RDD for every third batch only."""

    def __init__(self, graph: DStreamGraph) -> None:
        super().__init__(graph)
        self.slide_ms = 3 * INTERVAL_MS

    def compute(self, time_ms: int) -> RDD[Any]:
        return NoRDD()


class Received:
    """The block tracker's side of a batch, without receivers."""

    def __init__(self, blocks: ReceivedBlockTracker) -> None:
        self._blocks = blocks

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        self._blocks.allocate_blocks_to_batch(batch_time_ms)

    def clean_up(self, before_ms: int, retained: Sequence[range], *, delete: bool) -> None:
        self._blocks.clean_up_batches(before_ms, retained)

    def processed(self, until_ms: int, failed: Sequence[int]) -> None:
        self._blocks.processed(until_ms, failed)

    def pause(self, paused: bool) -> None:
        """Without effect."""

    @property
    def last_allocated_ms(self) -> int:
        return -1

    @property
    def has_unallocated_blocks(self) -> bool:
        return self._blocks.has_unallocated_blocks


class Listener:
    """Counts events."""

    never_drop = True

    def __init__(self) -> None:
        self.records = 0
        self.succeeded: Counter[bool | None] = Counter()
        self._heard = threading.Semaphore(0)

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.records += batchCompleted.batchInfo.numRecords
        self.succeeded[batchCompleted.batchInfo.succeeded] += 1
        self._heard.release()

    def await_batch(self) -> None:
        assert self._heard.acquire(timeout=120)


class Engine:
    """Everything in the driver that a batch passes through, without Spark and network."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.listener = Listener()
        self.errors = list[BaseException]()
        self.blocks = ReceivedBlockTracker([0])
        graph = DStreamGraph(cast(Any, FakeSparkContext()), INTERVAL_MS)
        # The delays between retries are in real time.
        graph.stopping.wait = lambda _timeout: False  # type: ignore[assignment, method-assign, misc]
        DStream(Reporting(graph, self.blocks), cast(Any, None)).foreachRDD(lambda rdd: None)
        DStream(Sliding(graph), cast(Any, None)).foreachRDD(self._every_other_fails)
        self._calls = 0
        self._bus = ListenerBus(10_000, 10)
        self._bus.add(self.listener)
        self._scheduler = JobScheduler(SETTINGS, self.clock, do_nothing, self._bus.post, self._note, self._note)
        graph.connect(GraphRuntime(generation_retries=2, report_input=self._scheduler.input_info.report))
        received = Received(self.blocks)
        self.generator = JobGenerator(SETTINGS, self.clock, graph, self._scheduler, cast(Any, received), self._note)

    def _every_other_fails(self, _rdd: RDD[Any]) -> None:
        self._calls += 1
        if self._calls % 2:
            raise ValueError("every other one")

    def _note(self, error: BaseException) -> None:
        self.errors[:] = [error]

    def start(self) -> None:
        self._bus.start()
        self._scheduler.start(self.generator.batch_completed)
        self.generator.start()

    def run(self, first: int, last: int) -> None:
        for number in range(first, last):
            ids = range(number * BLOCKS, (number + 1) * BLOCKS)
            self.blocks.add_blocks([StoredBlock(f"input-0-1-{n}", 0, 10, 1000, "/nowhere") for n in ids])
            self.clock.await_waiters()
            self.clock.advance(INTERVAL_MS)
            self.listener.await_batch()

    def stop(self) -> None:
        self.generator.stop(None)
        self._scheduler.stop(5)
        self._bus.stop(5)


def in_use() -> tuple[int, int]:
    """The number of objects, and the bytes in use."""
    gc.collect()
    return len(gc.get_objects()), tracemalloc.get_traced_memory()[0]


@pytest.fixture
def no_log() -> Iterator[None]:
    """Log nothing, because pytest stores every line."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_log")
def test_driver_memory_is_flat_over_fifteen_hundred_batches() -> None:
    engine = Engine()
    engine.start()
    engine.run(0, SETTLED)
    tracemalloc.start()
    try:
        engine.run(SETTLED, 2 * SETTLED)
        objects_before, bytes_before = in_use()
        engine.run(2 * SETTLED, BATCHES)
        # One object, or a hundred bytes, for each of the last 500 batches would be far more. The last batches may still
        # be cleaned up, and threads of earlier tests may still end.
        wait_for(lambda: all(map(lt, in_use(), (objects_before + 250, bytes_before + 40_000))), "memory is as before")
    finally:
        tracemalloc.stop()
    engine.stop()
    assert engine.listener.records >= (BATCHES - 1) * BLOCKS * 10
    assert engine.listener.succeeded[None] == 0
    assert engine.listener.succeeded[False] == -(-BATCHES // 3 // 2)
