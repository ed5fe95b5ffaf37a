"""Runs many operations in one StreamingContext: a context and a Spark job cost more than the records of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import DStream
from penstock_testing import StreamHarness

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Batches = list[list[Any]]


class RunOutputs:
    """Runs a program that has its own outputs; no stream is collected.

    Args:
        harness: makes the StreamingContext of each run.
    """

    def __init__(self, harness: StreamHarness) -> None:
        self._harness = harness

    def __call__(self, program: Callable[..., None], *inputs: Batches, num_batches: int | None = None) -> None:
        """Run the program, given a stream for each input."""

        def build(*streams: DStream[Any]) -> DStream[Any]:
            program(*streams)
            return streams[0].transform(lambda _rdd: None)

        self._harness.run(build, *inputs, num_batches=num_batches)


class RunAll:
    """Runs several operations on the same inputs in one context, each batch as one Spark job.

    Args:
        sc: runs the jobs.
        run_outputs: runs the program that is made of the operations.
    """

    def __init__(self, sc: SparkContext, run_outputs: RunOutputs) -> None:
        self._sc = sc
        self._run_outputs = run_outputs

    def __call__(
        self,
        operations: Mapping[str, Callable[..., Any]],
        *inputs: Batches,
        num_batches: int | None = None,
        sort: bool = True,
    ) -> dict[str, Batches]:
        """The batches of each operation: one for each RDD of its stream.

        Args:
            operations: given a stream for each input, each returns the stream to collect.
            inputs: the batches of each stream.
            num_batches: how many to run; by default as many as the longest input has.
            sort: sort the records of a batch: after a shuffle they have no order.
        """
        found = self.by_time(operations, *inputs, num_batches=num_batches, sort=sort)
        return {name: list(batches.values()) for name, batches in found.items()}

    def by_time(
        self,
        operations: Mapping[str, Callable[..., Any]],
        *inputs: Batches,
        num_batches: int | None = None,
        sort: bool = True,
    ) -> dict[str, dict[float, list[Any]]]:
        """As ``__call__``, with the batch time (in seconds) of each batch."""
        found: dict[str, dict[float, list[Any]]] = {name: {} for name in operations}
        # The RDDs of the batch that runs now.
        rdds: dict[str, RDD[Any]] = {}

        def collect(time: datetime, _rdd: RDD[Any]) -> None:
            for name, records in self._collected(rdds).items():
                found[name][time.timestamp()] = sorted(records, key=repr) if sort else records
            rdds.clear()

        def program(*streams: DStream[Any]) -> None:
            for name, operation in operations.items():
                operation(*streams).foreachRDD(partial(rdds.__setitem__, name))
            streams[0].foreachRDD(collect)

        self._run_outputs(program, *inputs, num_batches=num_batches)
        return found

    def _collected(self, rdds: Mapping[str, RDD[Any]]) -> dict[str, list[Any]]:
        """The records of several RDDs, by one job whose last stage has one task: more would start more workers."""
        found: dict[str, list[Any]] = {name: [] for name in rdds}
        if rdds:
            named = self._sc.union([rdd.mapPartitions(_named(name)) for name, rdd in rdds.items()])
            for name, records in named.coalesce(1).collect():
                found[name] += records
        return found


def _named(name: str) -> Callable[[Iterable[Any]], list[tuple[str, list[Any]]]]:
    return lambda records: [(name, list(records))]
