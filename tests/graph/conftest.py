"""A context and RDDs without Spark: RDDs hold lists, and note what is done with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import pyspark.shuffle
import pytest
from pyspark import RDD, StorageLevel

from penstock import StreamingContext
from penstock.errors import StreamingStateError
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.inputs import InputDStream
from penstock.graph.operators import windows
from penstock.graph.state import stateful
from penstock.worker.state_store import StateStore

INTERVAL_MS = 100


class FakeRDD(RDD[Any]):
    """Records in partitions."""

    def __init__(self, partitions: Sequence[Sequence[Any]]) -> None:
        self.partitions = [list(partition) for partition in partitions]
        #: What was done with it, in order.
        self.done: list[str] = []

    def mapPartitionsWithIndex(
        self, f: Callable[[int, Iterable[Any]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> FakeRDD:
        self.done.append(f"mapPartitionsWithIndex {preservesPartitioning}")
        return FakeRDD([list(f(index, iter(partition))) for index, partition in enumerate(self.partitions)])

    def partitionBy(self, numPartitions: int | None, partitionFunc: Callable[[Any], int] = hash) -> FakeRDD:
        self.done.append(f"partitionBy {numPartitions}")
        assert numPartitions is not None
        shuffled: list[list[Any]] = [[] for _ in range(numPartitions)]
        for key, value in self.collect():
            shuffled[partitionFunc(key) % numPartitions].append((key, value))
        return FakeRDD(shuffled)

    def persist(self, storageLevel: StorageLevel = StorageLevel.MEMORY_ONLY) -> FakeRDD:
        self.done.append(f"persist {storageLevel}")
        return self

    def unpersist(self, blocking: bool = False) -> FakeRDD:
        self.done.append("unpersist")
        return self

    def getNumPartitions(self) -> int:
        return len(self.partitions)

    def collect(self) -> list[Any]:
        return [record for partition in self.partitions for record in partition]


class FakeAccumulator:
    """Adds up in this process."""

    def __init__(self, value: Any, param: Any) -> None:
        self.value, self._param = value, param

    def add(self, term: Any) -> None:
        self.value = self._param.addInPlace(self.value, term)


class FakeSparkContext:
    defaultParallelism = 2

    def emptyRDD(self) -> FakeRDD:
        return FakeRDD([])

    def parallelize(self, records: Iterable[Any], numSlices: int = 1) -> FakeRDD:
        return FakeRDD([list(records)])

    def union(self, rdds: Sequence[FakeRDD]) -> FakeRDD:
        return FakeRDD([partition for rdd in rdds for partition in rdd.partitions])

    def accumulator(self, value: Any, accum_param: Any = None) -> FakeAccumulator:
        return FakeAccumulator(value, accum_param)

    def getConf(self) -> dict[str, str]:
        return {"spark.python.worker.memory": "512m"}


class FakeContext:
    """As much of a StreamingContext as streams see."""

    def __init__(self) -> None:
        self.sparkContext = FakeSparkContext()
        self.graph = DStreamGraph(cast(Any, self.sparkContext), INTERVAL_MS, check_can_build=self._check_can_build)
        self.refuses = ""

    def _check_can_build(self, what: str) -> None:
        if self.refuses:
            raise StreamingStateError(f"{self.refuses} ({what})")


class FakeInputNode(InputDStream):
    """Gives each batch the partitions that a function returns, ``None`` for no RDD; counts how often it is computed."""

    def __init__(self, graph: DStreamGraph, batches: Callable[[int], Sequence[Sequence[Any]] | None]) -> None:
        super().__init__(graph)
        self._batches = batches
        self.computed: list[int] = []
        self.made: dict[int, FakeRDD] = {}
        self.running = False

    def compute(self, time_ms: int) -> FakeRDD | None:
        self.computed.append(time_ms)
        partitions = self._batches(time_ms)
        if partitions is None:
            return None
        self.made[time_ms] = FakeRDD(partitions)
        return self.made[time_ms]

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False


class FakeInput(DStream[Any]):
    """The stream of a FakeInputNode."""

    def __init__(self, context: FakeContext, batches: Callable[[int], Sequence[Sequence[Any]] | None]) -> None:
        self.node = FakeInputNode(context.graph, batches)
        super().__init__(self.node, cast(StreamingContext, context))


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark's hash of keys asks for it
    monkeypatch.setattr(pyspark.shuffle, "get_used_memory", lambda: 100)  # PySpark's leaves a file open
    return FakeContext()


@pytest.fixture
def make_input(context: FakeContext) -> Callable[..., FakeInput]:
    """Makes inputs; by default each batch has two partitions of numbers."""

    def make(
        batches: Callable[[int], Sequence[Sequence[Any]] | None] = lambda time_ms: [
            [time_ms],
            [time_ms + 1, time_ms + 2],
        ],
    ) -> FakeInput:
        return FakeInput(context, batches)

    return make


@pytest.fixture
def run(context: FakeContext) -> Callable[[DStream[Any], int], Any]:
    """Computes a stream at a time, after a start at zero; gives the records, or ``None`` for no RDD."""

    def run(stream: DStream[Any], time_ms: int) -> Any:
        stream._node.initialize(0)
        rdd = stream._node.get_or_compute(time_ms)
        return None if rdd is None else rdd.collect()

    return run


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unions of co-partitioned RDDs and checkpoints without Spark; the files of keyed states in the test's folder."""

    def union(_sc: Any, rdds: Sequence[FakeRDD], _num_partitions: int) -> FakeRDD:
        united = zip(*(rdd.partitions for rdd in rdds), strict=True)
        return FakeRDD([list(itertools.chain(*partitions)) for partitions in united])

    for module in (windows, stateful):
        monkeypatch.setattr(module, "co_partitioned_union", union)
    monkeypatch.setattr(RDD, "checkpoint", lambda _rdd: None)
    monkeypatch.setattr(RDD, "isCheckpointed", lambda _rdd: False)
    of = StateStore.of
    monkeypatch.setattr(StateStore, "of", staticmethod(lambda home, partition: of(f"{tmp_path}{home}", partition)))
