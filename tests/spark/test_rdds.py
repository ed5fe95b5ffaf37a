"""RDDs of the JVM: shared slots, and what is asked of RDDs that the program made; without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import MagicMock

import pytest
from tests.helpers.fake_graph import FakeRDD

from penstock.spark import rdds
from penstock.spark.rdds import LocatedPartition, PlaceholderRdds, num_partitions


def test_batches_with_the_same_locations_share_an_rdd_while_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sequence[LocatedPartition]] = []

    def make(_sc: object, partitions: Sequence[LocatedPartition]) -> FakeRDD:
        made.append(partitions)
        return FakeRDD([[partition.element] for partition in partitions])

    monkeypatch.setattr(rdds, "located_rdd", make)
    monkeypatch.setattr(rdds, "_MAX_PLACEHOLDERS", 2)
    slots = PlaceholderRdds(MagicMock())
    first = slots.at([("a",), ()])
    assert first.collect() == [0, 1]
    slots.at([("b",)])
    assert slots.at([("a",), ()]) is first
    # The one that was not used for the longest time is forgotten.
    slots.at([("c",)])
    assert slots.at([("a",), ()]) is first
    assert len(made) == 3
    slots.at([("b",)])
    assert len(made) == 4


def test_number_of_partitions_of_a_missing_input_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    rdd = FakeRDD([[1], [2]])
    assert num_partitions(rdd) == 2

    def fail(_rdd: FakeRDD) -> int:
        raise RuntimeError("Input path does not exist")

    monkeypatch.setattr(FakeRDD, "getNumPartitions", fail)
    assert num_partitions(rdd) is None
