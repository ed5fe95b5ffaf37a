"""``penstock.spark.cluster``: executors, listed and requested; task slots, also before executors have registered."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from pyspark import SparkConf, SparkContext

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
        self._summaries, self._jsc, self._jvm = summaries, self, MagicMock()
        #: The numbers of executors that were requested.
        self.totals: list[int] = []

    def requestTotalExecutors(self, total: int, _tasks: int, _preferences: object) -> bool:
        self.totals.append(total)
        return True

    def killExecutor(self, executor_id: str) -> bool:
        return executor_id in {each.id() for each in self._summaries}

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


def test_further_executors_are_requested_as_a_new_total() -> None:
    sc = FakeSparkContext(Summary("1", "a:2"), Summary("2", "b:3"))
    assert cluster.request_executors(cast(SparkContext, sc), 3)
    assert sc.totals == [5]


def test_others_are_requested_after_an_executor_was_killed() -> None:
    sc = FakeSparkContext(Summary("1", "a:2"), Summary("2", "b:3"))
    assert not cluster.kill_executor(cast(SparkContext, sc), "7")
    assert sc.totals == []
    assert cluster.kill_executor(cast(SparkContext, sc), "2")
    assert sc.totals == [1]


@pytest.mark.parametrize(("listed", "ids"), [("", set()), ("1", {"1"}), ("1,12", {"1", "12"})])
def test_ids_of_executors_are_read_from_one_text(listed: str, ids: set[str]) -> None:
    sc: Any = SimpleNamespace(_jsc=MagicMock())
    sc._jsc.sc().getExecutorIds().mkString.return_value = listed
    assert cluster.executor_ids(sc) == ids


def test_local_master_with_all_cores_has_those_that_the_jvm_counts() -> None:
    sc: Any = SimpleNamespace(master="local[*]", _jvm=MagicMock())
    sc._jvm.java.lang.Runtime.getRuntime().availableProcessors.return_value = 6
    assert cluster.local_cores(sc) == 6


def test_spark_whose_jvm_does_not_answer_counts_as_stopped() -> None:
    def refuse() -> None:
        raise ConnectionRefusedError

    assert cluster.is_stopped(cast(SparkContext, SimpleNamespace(_jsc=SimpleNamespace(sc=refuse))))


def test_python_that_the_user_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = SparkConf(loadDefaults=False)
    sc: Any = SimpleNamespace(master="local[2]", pythonExec="python3", getConf=lambda: conf)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    cluster.use_this_python(sc)
    assert sc.pythonExec == "python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    cluster.use_this_python(sc)
    assert sc.pythonExec == sys.executable


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
