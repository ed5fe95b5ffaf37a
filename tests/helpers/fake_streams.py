"""Fixtures for streams on a graph without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyspark.shuffle
import pytest
from pyspark import RDD
from tests.helpers.fake_graph import FakeContext, FakeInput, FakeRDD, fake_shuffle

from penstock.graph import per_batch
from penstock.graph.dstream import DStream
from penstock.spi import node_of
from penstock_state import co_partitioned
from penstock_state.state_store import StateStore


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark's hash of keys asks for it
    monkeypatch.setattr(pyspark.shuffle, "get_used_memory", lambda: 100)  # PySpark's leaves a file open
    monkeypatch.setattr(per_batch, "shuffled", fake_shuffle)
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
        node_of(stream).initialize(0)
        rdd = node_of(stream).get_or_compute(time_ms)
        return None if rdd is None else rdd.collect()

    return run


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unions of co-partitioned RDDs and checkpoints without Spark; the files of keyed states in the test's folder."""

    def union(_sc: Any, rdds: Sequence[FakeRDD], _num_partitions: int) -> FakeRDD:
        united = zip(*(rdd.partitions for rdd in rdds), strict=True)
        return FakeRDD([list(itertools.chain(*partitions)) for partitions in united])

    monkeypatch.setattr(co_partitioned, "co_partitioned_union", union)
    monkeypatch.setattr(RDD, "checkpoint", lambda _rdd: None)
    monkeypatch.setattr(RDD, "isCheckpointed", lambda _rdd: False)
    of = StateStore.of
    monkeypatch.setattr(StateStore, "of", staticmethod(lambda home, partition: of(f"{tmp_path}{home}", partition)))
