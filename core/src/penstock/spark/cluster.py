"""What is known of the machine Spark runs on: its master, cores, executors, and where a job's task runs.

Owns nothing; asks Spark each time. Never called on a thread that must not wait for the JVM.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from attrs import frozen
from pyspark import SparkContext

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")

_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


@frozen
class TaskLocation:
    """Where a task runs: host and executor, as Spark names them."""

    host: str
    executor_id: str

    @property
    def preference(self) -> str:
        """As a task's preferred location: this executor, or any on the host when there is no executor id."""
        return f"executor_{self.host}_{self.executor_id}" if self.executor_id else self.host


def is_on_this_machine(sc: SparkContext) -> bool:
    """Say whether driver and executors share this machine (``local``, ``local[n]``, ``local-cluster[…]``)."""
    return _master(sc).startswith("local")


def _master(sc: SparkContext) -> str:
    return str(sc.master)


def local_cores(sc: SparkContext) -> int | None:
    """The task slots of a ``local[n]`` master; ``None`` for any other master, where they come and go."""
    match = _LOCAL.fullmatch(_master(sc))
    if match is None:
        return None
    if match[1] is None:
        return 1
    jvm: Any = sc._jvm
    return int(jvm.java.lang.Runtime.getRuntime().availableProcessors()) if match[1] == "*" else int(match[1])


def fixed_cores(sc: SparkContext) -> int | None:
    """All the task slots there will ever be; ``None`` where that is not for the master to say."""
    match = _CLUSTER.fullmatch(_master(sc))
    return local_cores(sc) if match is None else int(match[1]) * int(match[2])


def executors(sc: SparkContext) -> list[TaskLocation]:
    """The executors that are there now, without the driver, in the order of their ids.

    One that has just joined is there as soon as Spark knows its host.
    """
    store: Any = sc._jsc.sc().statusStore()
    found = store.executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    locations = [
        TaskLocation(summary.hostPort().rpartition(":")[0], summary.id())
        for summary in summaries
        if summary.id() != "driver" and summary.hostPort()
    ]
    return sorted(locations, key=lambda location: (len(location.executor_id), location.executor_id))


def request_executors(sc: SparkContext, count: int) -> bool:
    """Ask the cluster manager for this many more executors; say whether it accepted (in local mode never)."""
    return bool(sc._jsc.sc().requestExecutors(count))


def kill_executor(sc: SparkContext, executor_id: str) -> bool:
    """Ask the cluster manager to end an executor; say whether it accepted (in local mode never)."""
    return bool(sc._jsc.sc().killExecutor(executor_id))


def expected_executors(sc: SparkContext) -> int:
    """How many executors Spark was asked for; 1 where that cannot be known."""
    match, settings = _CLUSTER.fullmatch(_master(sc)), sc.getConf()
    if match is not None:
        return int(match[1])
    instances = settings.get("spark.executor.instances")
    if instances:
        return int(instances)
    cores, each = settings.get("spark.cores.max"), settings.get("spark.executor.cores")
    return max(int(cores) // int(each), 1) if cores and each else 1


def use_this_python(sc: SparkContext) -> None:
    """Where driver and executors share the machine, have tasks run in this very Python unless the user chose one.

    PySpark takes ``python3`` from PATH, which in a virtual environment that is not activated is another Python, without
    Penstock and without the program's packages.
    """
    chosen = "PYSPARK_PYTHON" in os.environ or sc.getConf().contains("spark.pyspark.python")
    if is_on_this_machine(sc) and not chosen and sys.executable:
        sc.pythonExec = sys.executable


def driver_host(sc: SparkContext) -> str:
    """The name or address by which executors reach this driver."""
    return str(sc.getConf().get("spark.driver.host"))


def driver_bind_address(sc: SparkContext) -> str:
    """The address on which the driver's ports listen: the one that Spark's own do."""
    return str(sc.getConf().get("spark.driver.bindAddress") or driver_host(sc))


def is_stopped(sc: SparkContext) -> bool:
    """Say whether the SparkContext was stopped, or its JVM is no more."""
    if sc._jsc is None:
        return True
    try:
        return bool(sc._jsc.sc().isStopped())
    # Py4J has several errors for a connection that is refused.
    except Exception:
        return True


def running_task(sc: SparkContext, job_group: str) -> TaskLocation | None:
    """Where the one running task of a job group runs; ``None`` when Spark knows of none (yet)."""
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
