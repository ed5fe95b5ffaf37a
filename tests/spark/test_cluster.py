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
        self._name = name
        self._host_port = host_port

    def id(self) -> str:
        return self._name

    def hostPort(self) -> str:
        return self._host_port


class FakeSparkContext:
    """A status store that knows some executors."""

    def __init__(self, *summaries: Summary) -> None:
        self._summaries = summaries
        self._jsc = self

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


class Backend(FakeSparkContext):
    """A scheduler backend of two executors, which notes what it is asked for."""

    def __init__(self, master: str, **conf: str) -> None:
        super().__init__(Summary("1", "a:1"), Summary("2", "b:1"))
        self.master = master
        self._conf = conf
        self.asked = list[tuple[Any, ...]]()
        names = SimpleNamespace(
            ExecutorDecommissionInfo=lambda message, host: (message, host),
            PythonUtils=SimpleNamespace(toScalaMap=lambda entries: entries),
        )
        spark = SimpleNamespace(scheduler=names, api=SimpleNamespace(python=names))
        option = SimpleNamespace(empty=lambda: "none")
        self._jvm = SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(spark=spark)),
            scala=SimpleNamespace(Option=option),
            java=SimpleNamespace(util=SimpleNamespace(HashMap=dict)),
        )

    def schedulerBackend(self) -> Any:
        return self

    def killExecutor(self, executor_id: str) -> bool:
        self.asked.append(("kill", executor_id))
        return True

    def decommissionExecutor(self, *arguments: Any) -> bool:
        self.asked.append(("decommission", *arguments))
        return True

    def requestTotalExecutors(self, total: int, *_no_preferences: Any) -> bool:
        self.asked.append(("request", total))
        return True


@pytest.mark.parametrize(
    ("master", "enabled", "asked"),
    [
        ("yarn", "false", ("kill", "2")),
        ("yarn", "true", ("decommission", "2", ("released by Penstock", "none"), True, False)),
        ("local[2]", "true", ("kill", "2")),
    ],
)
def test_executor_is_decommissioned_where_that_is_enabled_and_killed_elsewhere(
    master: str, enabled: str, asked: tuple[Any, ...]
) -> None:
    sc = Backend(master, **{"spark.decommission.enabled": enabled})
    assert cluster.kill_executor(cast(SparkContext, sc), "2")
    assert sc.asked == [asked, ("request", 1)]


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
    sc = Backend("yarn")
    assert cluster.request_executors(cast(SparkContext, sc), 3)
    assert sc.asked == [("request", 5)]


def test_total_stays_if_spark_refuses_to_end_an_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "killExecutor", lambda _sc, _executor_id: False)
    sc = Backend("yarn", **{"spark.decommission.enabled": "false"})
    assert not cluster.kill_executor(cast(SparkContext, sc), "2")
    assert sc.asked == []


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
