"""Which elements of an RDD a DataFrame is read from, and in which session; without Spark."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.serializers import (
    AutoBatchedSerializer,
    BatchedSerializer,
    CPickleSerializer,
    MarshalSerializer,
    NoOpSerializer,
    PairDeserializer,
    UTF8Deserializer,
)
from pyspark.sql import SparkSession
from tests.helpers import run_in_background
from tests.helpers.engine_parts import BlocksRDD
from tests.helpers.fake_graph import FakeContext, FakeRDD
from tests.test_architecture import doors

import penstock_dataframes
from penstock import ConfigurationError
from penstock_dataframes.jvm_frames import BatchFrames, Elements, has_function, pickled, session, unpiped

PICKLE = CPickleSerializer()


def of(serializer: Any) -> FakeRDD:
    """An RDD whose elements a serializer reads."""
    rdd = FakeRDD([["a"]])
    rdd._jrdd, rdd._jrdd_deserializer = "java", serializer
    return rdd


@pytest.mark.parametrize(
    ("serializer", "is_grouped"),
    [(PICKLE, False), (BatchedSerializer(PICKLE, 3), True), (AutoBatchedSerializer(PICKLE), True)],
    ids=["single", "batched", "auto-batched"],
)
def test_pickled_elements_are_read_as_they_are(serializer: Any, is_grouped: bool) -> None:
    assert pickled(of(serializer)) == Elements("java", is_grouped)
    assert unpiped(of(serializer)) == Elements("java", is_grouped)


@pytest.mark.parametrize(
    "serializer",
    [
        NoOpSerializer(),
        UTF8Deserializer(),
        MarshalSerializer(),
        AutoBatchedSerializer(MarshalSerializer()),
        PairDeserializer(AutoBatchedSerializer(PICKLE), AutoBatchedSerializer(PICKLE)),
    ],
    ids=lambda serializer: type(serializer).__name__,
)
def test_other_elements_are_pickled_first(serializer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRDD, "_reserialize", lambda _rdd, serializer: of(serializer), raising=False)
    assert pickled(of(serializer)) == Elements("java", is_grouped=True)


def test_the_function_of_an_rdd_runs_where_its_elements_are_converted() -> None:
    rdd: Any = BlocksRDD(of(PICKLE), 1, lambda _index, elements: elements, lambda _index, _elements: [1])
    mapped = BlocksRDD.mapPartitionsWithIndex(rdd, lambda _index, elements: [element * 2 for element in elements])
    assert has_function(mapped)
    rows = unpiped(mapped)
    assert (rows.java_rdd, rows.is_grouped) == ("java", False)
    assert rows.function is not None
    assert list(rows.function(0, iter([1, 2]))) == [2, 4]


def test_an_rdd_that_is_persisted_is_read_and_not_computed_again() -> None:
    rdd = of(PICKLE)
    persisted: Any = BlocksRDD(rdd, 1, lambda _index, elements: elements, lambda _index, _elements: [1])
    persisted.is_cached, persisted._jrdd_val, persisted._jrdd_deserializer = (
        True,
        "persisted",
        AutoBatchedSerializer(PICKLE),
    )
    assert not has_function(persisted)
    assert unpiped(persisted) == Elements("persisted", is_grouped=True)


def test_nodes_of_a_graph_share_the_creator_of_dataframes() -> None:
    graph, other = FakeContext().graph, FakeContext().graph
    frames = BatchFrames.of(graph)
    # Available while RDDs are generated.
    with graph.lock:
        assert run_in_background(lambda: BatchFrames.of(graph)).result(timeout=10) is frames
    assert BatchFrames.of(other) is not frames


def test_the_creator_of_dataframes_ends_with_its_graph() -> None:
    graph = FakeContext().graph
    frames = weakref.ref(BatchFrames.of(graph))
    del graph
    gc.collect()
    assert frames() is None


def test_session_of_another_spark_context_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = (cast(Any, SimpleNamespace(_jsc="java")) for _ in range(2))
    monkeypatch.setattr(SparkSession, "_instantiatedSession", SimpleNamespace(sparkContext=other))
    with pytest.raises(ConfigurationError, match="the active SparkSession belongs to another SparkContext"):
        session(own)
    assert session(other).sparkContext is other


def test_only_one_module_names_the_doors_to_the_jvm() -> None:
    folder = Path(penstock_dataframes.__file__).parent
    named = {file.name for file in folder.rglob("*.py") if list(doors(file.read_text(encoding="utf-8")))}
    assert named == {"jvm_frames.py"}
