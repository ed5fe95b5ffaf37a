"""Operators under the manual clock: lists in, an operation, lists out; on the one SparkContext of the test run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers.run_all import RunAll, RunOutputs

from penstock import DStream, StreamingContext
from penstock.spark.failure import reason
from penstock_testing import StreamHarness

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
    return StreamHarness(sc, checkpoint_directory=str(tmp_path_factory.mktemp("checkpoints")))


@pytest.fixture
def unstarted(sc: SparkContext) -> StreamingContext:
    """A context with batches of half a second, to build with."""
    return StreamingContext(sc, 0.5)


@pytest.fixture(scope="session")
def run_outputs(harness: StreamHarness) -> RunOutputs:
    return RunOutputs(harness)


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
