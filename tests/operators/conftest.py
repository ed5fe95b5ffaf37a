"""Operators under the manual clock: lists in, an operation, lists out; on the one SparkContext of the test run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from penstock import DStream, StreamingContext
from penstock.spark.failure import reason
from penstock.testing import StreamHarness

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Operation = Callable[..., Any]
Batches = list[list[Any]]


@pytest.fixture(scope="module", autouse=True)
def partitions(request: pytest.FixtureRequest) -> Iterator[None]:
    """RDDs of one partition, unless the module says ``PARTITIONS = 2``: a task costs more than these tests' records."""
    from pyspark import SparkContext

    number = getattr(request.module, "PARTITIONS", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "defaultParallelism", property(lambda _sc: number))
        yield


@pytest.fixture(scope="session")
def harness(sc: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> StreamHarness:
    """Batches of one second, with a checkpoint directory."""
    return StreamHarness(sc, checkpointDirectory=str(tmp_path_factory.mktemp("checkpoints")))


@pytest.fixture
def unstarted(sc: SparkContext) -> StreamingContext:
    """A context with batches of half a second, to build with."""
    return StreamingContext(sc, 0.5)


class RunOutputs:
    """Runs a program that has outputs of its own: beside them, nothing is collected."""

    def __init__(self, harness: StreamHarness) -> None:
        self._harness = harness

    def __call__(self, program: Callable[..., None], *inputs: Batches, num_batches: int | None = None) -> None:
        """Run the program, given a stream for each input."""

        def build(*streams: DStream[Any]) -> DStream[Any]:
            program(*streams)
            return streams[0].transform(lambda _rdd: None)

        self._harness.run(build, *inputs, num_batches=num_batches)


@pytest.fixture(scope="session")
def run_outputs(harness: StreamHarness) -> RunOutputs:
    return RunOutputs(harness)


class RunAll:
    """Runs many operations on the same inputs at once, a batch as one job: what costs is runs and jobs."""

    def __init__(self, sc: SparkContext, run_outputs: RunOutputs) -> None:
        self._sc, self._run_outputs = sc, run_outputs

    def __call__(
        self, operations: Mapping[str, Operation], *inputs: Batches, num_batches: int | None = None, sort: bool = True
    ) -> dict[str, Batches]:
        """Each operation's batches: one for each RDD of its stream.

        Args:
            operations: given a stream for each input, each returns the stream to collect.
            inputs: the batches of each stream.
            num_batches: how many to run; as many as the longest input has by default.
            sort: the records of a batch, for behind a shuffle they have no order.
        """
        found: dict[str, Batches] = {name: [] for name in operations}
        # Of the batch that runs.
        rdds: dict[str, RDD[Any]] = {}

        def collect(_rdd: RDD[Any]) -> None:
            for name, records in self._collected(rdds).items():
                found[name].append(sorted(records, key=repr) if sort else records)
            rdds.clear()

        def program(*streams: DStream[Any]) -> None:
            for name, operation in operations.items():
                operation(*streams).foreachRDD(partial(rdds.__setitem__, name))
            streams[0].foreachRDD(collect)

        self._run_outputs(program, *inputs, num_batches=num_batches)
        return found

    def _collected(self, rdds: Mapping[str, RDD[Any]]) -> dict[str, list[Any]]:
        """The records of several RDDs, with one job of one task at its end: more of them would start more workers."""
        found: dict[str, list[Any]] = {name: [] for name in rdds}
        if rdds:
            named = self._sc.union([rdd.mapPartitions(_named(name)) for name, rdd in rdds.items()])
            for name, records in named.coalesce(1).collect():
                found[name] += records
        return found


def _named(name: str) -> Callable[[Iterable[Any]], list[tuple[str, list[Any]]]]:
    return lambda records: [(name, list(records))]


@pytest.fixture(scope="session")
def run_all(sc: SparkContext, run_outputs: RunOutputs) -> RunAll:
    return RunAll(sc, run_outputs)


class Reasons:
    """Runs operations that are to fail in their tasks, all at once, and says what each failed on, in one line."""

    def __init__(self, run_outputs: RunOutputs) -> None:
        self._run_outputs = run_outputs

    def __call__(self, operations: Mapping[str, Operation], *inputs: Batches) -> dict[str, str]:
        """The first error of each; an operation that fails in no batch is not in it."""
        reasons: dict[str, str] = {}

        def program(*streams: DStream[Any]) -> None:
            for name, operation in operations.items():
                self._note(operation(*streams), name, reasons)

        self._run_outputs(program, *inputs)
        return reasons

    @staticmethod
    def _note(stream: DStream[Any], name: str, reasons: dict[str, str]) -> None:
        def collect(rdd: RDD[Any]) -> None:
            try:
                rdd.collect()
            except Exception as error:
                reasons.setdefault(name, reason(error))

        stream.foreachRDD(collect)


@pytest.fixture
def reasons(run_outputs: RunOutputs) -> Reasons:
    return Reasons(run_outputs)
