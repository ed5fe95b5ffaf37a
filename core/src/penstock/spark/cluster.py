"""Queries of the cluster: master, cores, executors, the location of a running task.

Functions cache nothing. Most of them call the JVM and block meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from penstock.runtime.log import get_logger
from penstock.spark.launch_conf import UDS
from penstock.spark.spark_conf import conf_of

if TYPE_CHECKING:
    from pyspark import SparkContext

log = get_logger("spark")

# For this long a number of slots is not asked for again.
_KNOWN_S = 1.0

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")

# Until an executor has registered its block manager, Spark lists its host without a port.
_PORT = re.compile(r":\d+\Z")

# How many failed jobs, and tasks of each of their stages, are looked at for the task that failed.
_FAILED_JOBS = _FAILED_TASKS = 10

_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


@frozen
class TaskLocation:
    """Host and executor of a task, as Spark names them."""

    host: str
    executor_id: str

    @property
    def preference(self) -> str:
        """Spark's preferred location: this executor, or the host when there is no executor id."""
        return f"executor_{self.host}_{self.executor_id}" if self.executor_id else self.host


def is_on_this_machine(sc: SparkContext) -> bool:
    """Whether driver and executors share this machine (``local``, ``local[n]``, ``local-cluster[…]``)."""
    return _master(sc).startswith("local")


def _master(sc: SparkContext) -> str:
    return str(sc.master)


def local_cores(sc: SparkContext) -> int | None:
    """Number of task slots of a ``local[n]`` master; ``None`` for other masters, where executors come and go."""
    match = _LOCAL.fullmatch(_master(sc))
    if match is None:
        return None
    if match[1] is None:
        return 1
    if match[1] != "*":
        return int(match[1])
    jvm: Any = sc._jvm
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())


def fixed_cores(sc: SparkContext) -> int | None:
    """Number of task slots of a local or ``local-cluster`` master; ``None`` where executors come and go."""
    match = _CLUSTER.fullmatch(_master(sc))
    return local_cores(sc) if match is None else int(match[1]) * int(match[2])


def executors(sc: SparkContext) -> list[TaskLocation]:
    """The registered executors without the driver, ordered by id.

    A new executor is listed once Spark knows its host.
    """
    store: Any = sc._jsc.sc().statusStore()
    found = store.executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    locations = [
        TaskLocation(_PORT.sub("", summary.hostPort()), summary.id())
        for summary in summaries
        if summary.id() != "driver" and summary.hostPort()
    ]
    return sorted(locations, key=lambda location: (len(location.executor_id), location.executor_id))


def executor_ids(sc: SparkContext) -> frozenset[str]:
    """The ids of the executors that can run tasks now, for a cluster master. Cheaper than ``executors``.

    An executor is among them before its first task, and until Spark has noticed its end.
    """
    return frozenset(filter(None, str(sc._jsc.sc().getExecutorIds().mkString(",")).split(",")))


def request_executors(sc: SparkContext, count: int) -> bool:
    """Ask for this many more executors than run now; returns whether Spark accepted (never in local mode)."""
    return _request_total(sc, len(executors(sc)) + count)


def kill_executor(sc: SparkContext, executor_id: str) -> bool:
    """Ask Spark to end an executor; returns whether it accepted (never in local mode).

    With ``spark.decommission.enabled`` the executor first finishes its tasks; otherwise the cluster manager kills it.
    """
    others = sum(each.executor_id != executor_id for each in executors(sc))
    # Local mode has no executors, and no call to decommission one.
    decommissions = local_cores(sc) is None and str(conf_of(sc).get("spark.decommission.enabled")).lower() == "true"
    killed = _decommission(sc, executor_id) if decommissions else bool(sc._jsc.sc().killExecutor(executor_id))
    if killed:
        # Spark counts only executors that were requested while the program runs, and from now on wants none of the
        # others: the cluster manager would neither replace one that is lost nor start one that is requested.
        _request_total(sc, others)
    return killed


def _decommission(sc: SparkContext, executor_id: str) -> bool:
    jvm: Any = sc._jvm
    info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("released by Penstock", jvm.scala.Option.empty())
    # Adjusts Spark's target number of executors; not triggered by the executor.
    return bool(sc._jsc.sc().schedulerBackend().decommissionExecutor(executor_id, info, True, False))


def _request_total(sc: SparkContext, count: int) -> bool:
    jvm: Any = sc._jvm
    no_preferences = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    return bool(sc._jsc.sc().requestTotalExecutors(count, 0, no_preferences))


def expected_executors(sc: SparkContext) -> int:
    """Number of executors requested from Spark; 1 where the configuration does not say."""
    match, settings = _CLUSTER.fullmatch(_master(sc)), conf_of(sc)
    if match is not None:
        return int(match[1])
    instances = settings.get("spark.executor.instances")
    if instances:
        return int(instances)
    cores, each = settings.get("spark.cores.max"), settings.get("spark.executor.cores")
    return max(int(cores) // int(each), 1) if cores and each else 1


def task_slots(sc: SparkContext) -> int:
    """The number of task slots, at least one; where executors have still to register, the number that is expected."""
    cores = fixed_cores(sc)
    if cores is not None:
        return max(cores, 1)
    each = int(conf_of(sc).get("spark.executor.cores") or 1)
    return max(sc.defaultParallelism, expected_executors(sc) * each, 1)


def use_this_python(sc: SparkContext) -> None:
    """On one machine, run tasks with the driver's Python unless the user chose another one.

    PySpark runs ``python3`` from PATH. In a virtual environment that is not activated that is another Python, without
    Penstock and the program's packages.
    """
    chosen = "PYSPARK_PYTHON" in os.environ or conf_of(sc).contains("spark.pyspark.python")
    if is_on_this_machine(sc) and not chosen and sys.executable:
        sc.pythonExec = sys.executable


def driver_host(sc: SparkContext) -> str:
    """Name or address at which executors reach this driver."""
    return str(conf_of(sc).get("spark.driver.host"))


def driver_bind_address(sc: SparkContext) -> str:
    """Address that the driver's ports bind to: the same as for Spark's own ports."""
    return str(conf_of(sc).get("spark.driver.bindAddress") or driver_host(sc))


def is_closed(sc: SparkContext) -> bool:
    """Whether this process has stopped the SparkContext; asks no JVM."""
    return sc._jsc is None


def is_stopped(sc: SparkContext) -> bool:
    """Whether the SparkContext was stopped or its JVM has ended."""
    if is_closed(sc):
        return True
    try:
        return bool(sc._jsc.sc().isStopped())
    # Py4J has several errors for a refused connection.
    except Exception:
        return True


def running_task(sc: SparkContext, job_group: str) -> TaskLocation | None:
    """The location of the single running task of a job group; ``None`` while there is none."""
    tracker = sc.statusTracker()
    store: Any = sc._jsc.sc().statusStore()
    for job_id in tracker.getJobIdsForGroup(job_group):
        job = tracker.getJobInfo(job_id)
        if job is None or job.status != "RUNNING":
            continue
        for stage_id in job.stageIds:
            tasks = store.taskList(stage_id, 0, 10)
            for index in range(tasks.size()):
                task = tasks.apply(index)
                if task.status() == "RUNNING":
                    return TaskLocation(task.host(), task.executorId())
    return None


def failed_tasks() -> list[tuple[TaskLocation, str]]:
    """Where tasks of the last failed jobs failed, and with which error, newest job first; empty without Spark.

    Asks the process's active SparkContext, since who reports an error need not have it, for its status store, which is
    up to date a moment after the jobs.
    """
    from pyspark import SparkContext

    try:
        sc: Any = SparkContext._active_spark_context
        failed = sc._jvm.java.util.ArrayList()
        failed.add(sc._jvm.org.apache.spark.JobExecutionStatus.FAILED)
        store = sc._jsc.sc().statusStore()
        jobs = store.jobsList(failed).take(_FAILED_JOBS)
        stages = [each for n in range(jobs.size()) for each in jobs.apply(n).stageIds().mkString(",").split(",")]
        lists = [store.taskList(int(each), 0, _FAILED_TASKS) for each in stages if each]
        tasks = [each.apply(n) for each in lists for n in range(each.size())]
        return [
            (TaskLocation(each.host(), each.executorId()), str(each.errorMessage().get()))
            for each in tasks
            if each.errorMessage().isDefined()
        ]
    # The context may have stopped meanwhile.
    except Exception:
        return []


def check_unix_sockets(sc: SparkContext) -> None:
    """Log a warning if Python workers are reached by TCP, over which each stage waits for a delayed acknowledgement."""
    if conf_of(sc).get(UDS) != "true":
        log.warning(
            "Unix domain sockets off",
            effect="each Python stage takes about 40 ms longer",
            key=UDS,
            advice=f"set {UDS}=true before the SparkContext is created, or start with `penstock run`",
        )


class FreeSlots:
    """The task slots that receivers leave free, at least one; ``spark.default.parallelism`` if the user set that.

    Args:
        sc: asked again only where executors come and go, and at most once a second.
        receivers: returns the number of receivers.
    """

    def __init__(self, sc: SparkContext, receivers: Callable[[], int]) -> None:
        self._sc = sc
        self._receivers = receivers
        self._slots = 0
        self._is_chosen = False
        self._asked_at = 0.0

    def __call__(self) -> int:
        """The number now."""
        is_known = self._slots and (is_on_this_machine(self._sc) or time.monotonic() - self._asked_at < _KNOWN_S)
        if not is_known:
            self._is_chosen = conf_of(self._sc).get("spark.default.parallelism") is not None
            self._slots = max(self._sc.defaultParallelism, 1) if self._is_chosen else task_slots(self._sc)
            self._asked_at = time.monotonic()
        return self._slots if self._is_chosen else max(self._slots - self._receivers(), 1)
