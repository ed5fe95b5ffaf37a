"""Operators under the manual clock: lists in, an operation, lists out; on the one SparkContext of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers.run_all import RunAll, RunOutputs

from penstock import StreamingContext
from penstock_testing import StreamHarness

if TYPE_CHECKING:
    from pyspark import SparkContext

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
