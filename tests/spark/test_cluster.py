"""``penstock.spark.cluster``: the registered executors; task slots, also before executors have registered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext

from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation


class Summary:
    """As ``ExecutorSummary``."""

    def __init__(self, name: str, host_port: str) -> None:
        self._name, self._host_port = name, host_port

    def id(self) -> str:
        return self._name

    def hostPort(self) -> str:
        return self._host_port


class FakeSparkContext:
    """A status store that knows some executors."""

    def __init__(self, *summaries: Summary) -> None:
        self._summaries, self._jsc = summaries, self

    def sc(self) -> Any:
        return self

    def statusStore(self) -> Any:
        return self

    def executorList(self, _active: bool) -> Any:
        return self

    def size(self) -> int:
        return len(self._summaries)

    def apply(self, index: int) -> Summary:
        return self._summaries[index]


def test_executors_are_ordered_by_id_without_the_driver() -> None:
    sc = FakeSparkContext(Summary("driver", "a:1"), Summary("10", "a:2"), Summary("9", "b:3"))
    assert cluster.executors(cast(SparkContext, sc)) == [TaskLocation("b", "9"), TaskLocation("a", "10")]


def test_executor_without_a_known_host_is_not_listed() -> None:
    sc = FakeSparkContext(Summary("0", "a:2"), Summary("1", ""))
    assert cluster.executors(cast(SparkContext, sc)) == [TaskLocation("a", "0")]


def test_executor_whose_port_is_not_known_yet_is_listed_with_its_host() -> None:
    sc = FakeSparkContext(
        Summary("0", "a:2"), Summary("1", "a"), Summary("2", "[fe80::1]"), Summary("3", "[fe80::1]:4")
    )
    executors = cluster.executors(cast(SparkContext, sc))
    assert [executor.host for executor in executors] == ["a", "a", "[fe80::1]", "[fe80::1]"]


@pytest.mark.parametrize(
    ("master", "settings", "registered", "slots"),
    [
        ("local[4]", {}, 4, 3),
        ("local[1]", {}, 1, 1),
        ("local-cluster[2,3,1024]", {}, 2, 5),
        ("yarn", {"spark.executor.instances": "4", "spark.executor.cores": "2"}, 2, 7),
        ("yarn", {"spark.executor.instances": "1"}, 6, 5),
        ("spark://host:7077", {"spark.cores.max": "8", "spark.executor.cores": "4"}, 2, 7),
        ("yarn", {"spark.executor.instances": "4", "spark.default.parallelism": "3"}, 3, 3),
    ],
)
def test_free_slots_count_executors_that_have_still_to_register(
    master: str, settings: dict[str, str], registered: int, slots: int
) -> None:
    sc = SimpleNamespace(master=master, defaultParallelism=registered, getConf=lambda: settings)
    assert cluster.FreeSlots(cast(SparkContext, sc), lambda: 1)() == slots
