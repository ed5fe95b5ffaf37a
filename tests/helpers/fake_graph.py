"""A graph without Spark: RDDs hold lists, and record what is done with them."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, cast

from pyspark import RDD, StorageLevel
from pyspark.serializers import read_long

from penstock import StreamingContext
from penstock.errors import StreamingStateError
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.input_dstreams import InputDStream
from penstock.graph.node import Node, with_ancestors
from penstock.hookspecs import GROUP
from penstock.plugins.discovery import Plugins

INTERVAL_MS = 100


class FakeRDD(RDD[Any]):
    """Records in partitions."""

    def __init__(self, partitions: Sequence[Sequence[Any]]) -> None:
        self.partitions = [list(partition) for partition in partitions]
        self.partitioner = None
        # What a PipelinedRDD asks for.
        self._jrdd: Any = None
        self._jrdd_deserializer: Any = None
        self.ctx: Any = FakeSparkContext()
        self.is_cached = self.is_checkpointed = self.has_resource_profile = False
        #: What was done with it, in order.
        self.done: list[str] = []

    def _is_barrier(self) -> bool:
        return False

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
        self.value = value
        self._param = param

    def add(self, term: Any) -> None:
        self.value = self._param.addInPlace(self.value, term)


def clear_metadata(node: Node, time_ms: int) -> None:
    """Have a stream and its ancestors forget old batches, as the graph does."""
    for stream in reversed(with_ancestors([node])):
        stream.clear_metadata(time_ms, unpersist=True)


def fake_shuffle(chunks: FakeRDD, num_partitions: int) -> FakeRDD:
    """As ``penstock.spark.rdds.shuffled``."""
    chunks.done.append(f"shuffled {num_partitions}")
    placed: list[list[Any]] = [[] for _ in range(num_partitions)]
    for partition in chunks.partitions:
        for number, chunk in zip(partition[::2], partition[1::2], strict=True):
            placed[read_long(io.BytesIO(number))].append(pickle.loads(chunk))
    return FakeRDD(placed)


class FakeSparkContext:
    defaultParallelism, master, serializer = 2, "local[2]", None

    def emptyRDD(self) -> FakeRDD:
        return FakeRDD([])

    def parallelize(self, records: Iterable[Any], numSlices: int = 1) -> FakeRDD:
        return FakeRDD([list(records)])

    def union(self, rdds: Sequence[FakeRDD]) -> FakeRDD:
        return FakeRDD([partition for rdd in rdds if isinstance(rdd, FakeRDD) for partition in rdd.partitions])

    def accumulator(self, value: Any, accum_param: Any = None) -> FakeAccumulator:
        return FakeAccumulator(value, accum_param)

    def getConf(self) -> dict[str, str]:
        return {"spark.python.worker.memory": "512m"}


@cache
def _plugins() -> Plugins:
    names = ("dataframes", "state")
    return Plugins(entry_points=[EntryPoint(name, f"penstock_{name}.plugin", GROUP) for name in names])


class FakeContext:
    """As much of a StreamingContext as streams see."""

    def __init__(self) -> None:
        self.sparkContext = FakeSparkContext()
        self.graph = DStreamGraph(cast(Any, self.sparkContext), INTERVAL_MS, check_can_build=self._check_can_build)
        self.refuses = ""
        self._plugins = _plugins()

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
