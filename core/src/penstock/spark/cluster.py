"""Queries of the cluster and of Spark's status store: master, cores, executors, the location of a task.

Functions cache nothing. Most of them call the JVM.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from attrs import frozen
from pyspark import SparkContext

from penstock.errors import ConfigurationError
from penstock.runtime.log import get_logger
from penstock.spark.spark_conf import UDS, conf_of

log = get_logger("spark")

# Validity of a queried number of slots.
_SLOTS_VALID_S = 1.0

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")

# Until an executor has registered its block manager, Spark lists its host without a port.
_PORT = re.compile(r":\d+\Z")

# Maximum numbers of failed jobs, and of tasks per stage, to search for a failed task.
_FAILED_JOBS = _FAILED_TASKS = 10

_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


@frozen
class TaskLocation:
    """Spark's names for the host and the executor of a task."""

    host: str
    executor_id: str

    @property
    def preference(self) -> str:
        """Spark's preferred location: this executor, or the host when there is no executor id."""
        return f"executor_{self.host}_{self.executor_id}" if self.executor_id else self.host


def spark_context_of(context: object) -> SparkContext:
    """Return a SparkContext, which a SparkSession stands for; ``ConfigurationError`` for everything else."""
    is_session = type(context).__name__ == "SparkSession"
    found = getattr(context, "sparkContext", context) if is_session else context
    if not isinstance(found, SparkContext):
        advice = " of Spark Connect, which has none: use spark.readStream" if is_session else ""
        raise ConfigurationError(f"sparkContext must be a SparkContext, not {type(found).__name__}{advice}")
    return found


def is_on_this_machine(sc: SparkContext) -> bool:
    """Whether driver and executors share this machine (``local``, ``local[n]``, ``local-cluster[…]``)."""
    return str(sc.master).startswith("local")


def local_cores(sc: SparkContext) -> int | None:
    """Number of task slots of a ``local[n]`` master; ``None`` for other masters, where executors come and go."""
    match = _LOCAL.fullmatch(str(sc.master))
    if match is None:
        return None
    if match[1] != "*":
        return int(match[1] or 1)
    jvm: Any = sc._jvm
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors())


def fixed_cores(sc: SparkContext) -> int | None:
    """Number of task slots of a local or ``local-cluster`` master; ``None`` where executors come and go."""
    match = _CLUSTER.fullmatch(str(sc.master))
    return local_cores(sc) if match is None else int(match[1]) * int(match[2])


def executors(sc: SparkContext) -> list[TaskLocation]:
    """The registered executors without the driver, ordered by id; a new one is listed once Spark knows its host."""
    store: Any = sc._jsc.sc().statusStore()
    listed = store.executorList(True)
    summaries = [listed.apply(index) for index in range(listed.size())]
    locations = [
        TaskLocation(_PORT.sub("", summary.hostPort()), summary.id())
        for summary in summaries
        if summary.id() != "driver" and summary.hostPort()
    ]
    return sorted(locations, key=lambda location: (len(location.executor_id), location.executor_id))


def executor_ids(sc: SparkContext) -> frozenset[str]:
    """The ids of the executors that can run tasks now, for a cluster master. Cheaper than ``executors``.

    An executor is included before its first task, and until Spark has noticed its end.
    """
    return frozenset(filter(None, str(sc._jsc.sc().getExecutorIds().mkString(",")).split(",")))


def request_executors(sc: SparkContext, count: int) -> bool:
    """Request ``count`` additional executors; return whether Spark accepted (never in local mode)."""
    return _request_total(sc, len(executors(sc)) + count)


def kill_executor(sc: SparkContext, executor_id: str) -> bool:
    """Ask Spark to end an executor; return whether it accepted (never in local mode).

    With ``spark.decommission.enabled`` the executor first finishes its tasks; otherwise the cluster manager kills it.
    """
    others = sum(location.executor_id != executor_id for location in executors(sc))
    # Local mode cannot decommission executors.
    decommissions = local_cores(sc) is None and str(conf_of(sc).get("spark.decommission.enabled")).lower() == "true"
    if decommissions:
        jvm: Any = sc._jvm
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("released by Penstock", jvm.scala.Option.empty())
        # The flags: adjust Spark's target number of executors; not triggered by the executor.
        killed = bool(sc._jsc.sc().schedulerBackend().decommissionExecutor(executor_id, info, True, False))
    else:
        killed = bool(sc._jsc.sc().killExecutor(executor_id))
    if killed:
        # Spark counts only executors that were requested at run time, and drops the others from its target: the cluster
        # manager would neither replace a lost executor nor start a requested one.
        _request_total(sc, others)
    return killed


def _request_total(sc: SparkContext, count: int) -> bool:
    jvm: Any = sc._jvm
    no_preferences = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    return bool(sc._jsc.sc().requestTotalExecutors(count, 0, no_preferences))


def expected_executors(sc: SparkContext) -> int:
    """Number of executors requested from Spark; 1 if the configuration does not say."""
    match, settings = _CLUSTER.fullmatch(str(sc.master)), conf_of(sc)
    if match is not None:
        return int(match[1])
    instances = settings.get("spark.executor.instances")
    if instances:
        return int(instances)
    cores, executor_cores = settings.get("spark.cores.max"), settings.get("spark.executor.cores")
    return max(int(cores) // int(executor_cores), 1) if cores and executor_cores else 1


def task_slots(sc: SparkContext) -> int:
    """The number of task slots, at least one; counts expected executors that have not registered yet."""
    cores = fixed_cores(sc)
    if cores is not None:
        return max(cores, 1)
    executor_cores = int(conf_of(sc).get("spark.executor.cores") or 1)
    return max(sc.defaultParallelism, expected_executors(sc) * executor_cores, 1)


def use_this_python(sc: SparkContext) -> None:
    """On one machine, run tasks with the driver's Python unless the user chose another one.

    PySpark runs ``python3`` from PATH. If the virtual environment is not activated, that Python lacks Penstock and the
    program's packages.
    """
    chosen = "PYSPARK_PYTHON" in os.environ or conf_of(sc).contains("spark.pyspark.python")
    if is_on_this_machine(sc) and not chosen and sys.executable:
        sc.pythonExec = sys.executable


def driver_host(sc: SparkContext) -> str:
    """The name or address at which executors reach this driver."""
    return str(conf_of(sc).get("spark.driver.host"))


def driver_bind_address(sc: SparkContext) -> str:
    """The address that the driver's ports bind to, which is that of Spark's own ports."""
    return str(conf_of(sc).get("spark.driver.bindAddress") or driver_host(sc))


def is_closed(sc: SparkContext) -> bool:
    """Whether this process has stopped the SparkContext; calls no JVM."""
    return sc._jsc is None


def is_stopped(sc: SparkContext) -> bool:
    """Whether the SparkContext was stopped or its JVM has ended."""
    try:
        return is_closed(sc) or bool(sc._jsc.sc().isStopped())
    # Py4J has several errors for a refused connection.
    except Exception:
        return True


def running_task(sc: SparkContext, job_group: str) -> TaskLocation | None:
    """The location of the single running task of a job group; ``None`` if there is none."""
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
    """Locations and errors of the failed tasks of the last failed jobs, newest job first; empty without Spark.

    Uses the process's active SparkContext, because callers that report an error may not have it. Spark's status store
    is updated shortly after a job.
    """
    try:
        sc: Any = SparkContext._active_spark_context
        failed = sc._jvm.java.util.ArrayList()
        failed.add(sc._jvm.org.apache.spark.JobExecutionStatus.FAILED)
        store = sc._jsc.sc().statusStore()
        jobs = store.jobsList(failed).take(_FAILED_JOBS)
        stages = [stage for n in range(jobs.size()) for stage in jobs.apply(n).stageIds().mkString(",").split(",")]
        lists = [store.taskList(int(stage), 0, _FAILED_TASKS) for stage in stages if stage]
        tasks = [listed.apply(n) for listed in lists for n in range(listed.size())]
        return [
            (TaskLocation(task.host(), task.executorId()), str(task.errorMessage().get()))
            for task in tasks
            if task.errorMessage().isDefined()
        ]
    # The context may have stopped.
    except Exception:
        return []


def check_unix_sockets(sc: SparkContext) -> None:
    """Log a warning if Python workers are reached by TCP, over which each stage waits for a delayed acknowledgement."""
    if conf_of(sc).get(UDS) != "true":
        log.warning(
            "Unix domain sockets off",
            effect="each Python stage takes about 40 ms longer",
            key=UDS,
            advice=f"set {UDS}=true before the SparkContext is created",
        )


class FreeSlots:
    """Number of task slots without receivers, at least one; ``spark.default.parallelism`` if the user set that.

    Spark is queried again only if executors come and go, and at most once per second.
    """

    def __init__(self, sc: SparkContext, receivers: Callable[[], int]) -> None:
        self._sc = sc
        self._receivers = receivers
        self._slots = 0
        self._is_chosen = False
        self._asked_at = 0.0

    def __call__(self) -> int:
        is_valid = self._slots and (is_on_this_machine(self._sc) or time.monotonic() - self._asked_at < _SLOTS_VALID_S)
        if not is_valid:
            self._is_chosen = conf_of(self._sc).get("spark.default.parallelism") is not None
            self._slots = max(self._sc.defaultParallelism, 1) if self._is_chosen else task_slots(self._sc)
            self._asked_at = time.monotonic()
        return self._slots if self._is_chosen else max(self._slots - self._receivers(), 1)
