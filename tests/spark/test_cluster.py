"""``cluster.executors``: the registered executors."""

from __future__ import annotations

from typing import Any, cast

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
