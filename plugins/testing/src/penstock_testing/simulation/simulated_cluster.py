"""A simulated cluster: a SparkContext without a JVM, whose jobs run in simulated worker processes.

A task takes virtual time, and may fail or be lost with its process; a job fails after four failures of a task, as in
Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkConf, SparkContext

from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess, Task
from penstock_testing.simulation.simulated_disk import SimulatedDisk
from penstock_testing.simulation.simulated_rdds import SimulatedRDD, collection_rdd, united, unpickled

_MAX_FAILURES = 4
_EXECUTORS = 2
# Begins the job groups of receivers.
_RECEIVERS = "penstock-receiver-"


class JobFailedError(Exception):
    """A job of the simulated cluster failed."""


class SimulatedAccumulator:
    """Adds up what tasks report."""

    def __init__(self, value: Any, param: Any) -> None:
        self.value = value
        self._param = param

    def add(self, term: Any) -> None:
        """Add a term."""
        self.value = self._param.addInPlace(self.value, term)


class SimulatedCluster:
    """What all drivers of a simulation share: the disk, and how tasks of batches run.

    Attributes:
        task_s: the longest time of a task besides its own.
        fails: called for each attempt to run a task of a batch; whether it fails.
        speculates: whether tasks of batches run twice at once.
    """

    def __init__(self, scheduler: Scheduler, disk: SimulatedDisk) -> None:
        self.scheduler = scheduler
        self.disk = disk
        self.task_s = 0.05
        self.fails: Callable[[], bool] = lambda: False
        self.speculates = False
        self._applications = itertools.count(1)

    def context(self, conf: dict[str, str], driver: SimulatedProcess) -> SimulatedSparkContext:
        """The SparkContext of a driver."""
        return SimulatedSparkContext(self, conf, driver, next(self._applications))


class SimulatedSparkContext(SparkContext):
    """A SparkContext without a JVM."""

    def __init__(self, cluster: SimulatedCluster, conf: dict[str, str], driver: SimulatedProcess, number: int) -> None:
        self.cluster = cluster
        self.disk = cluster.disk
        self._driver = driver
        self._conf: Any = SparkConf(loadDefaults=False, _jvm=None)
        for name, value in conf.items():
            self._conf.set(name, value)
        self.master = conf["spark.master"]
        self.appName = conf["spark.app.name"]
        self._application_id = f"simulated-{number}"
        self._jsc: Any = SimpleNamespace(sc=lambda: self)
        self.environment: dict[str, str] = {}
        self.serializer: Any = None
        self.pythonExec = ""
        self.checkpoint_directory = ""
        #: The processes of running tasks: their job group, and the executor that they belong to.
        self.workers: dict[SimulatedProcess, tuple[str, int]] = {}
        self._is_stopped = False
        self.is_jvm_dead = False
        self._rdds = itertools.count()
        self._tasks = itertools.count()
        self._folders = itertools.count(1)
        self._groups: dict[Task | None, str] = {}
        #: How long workers live on after a kill of the driver, in seconds.
        self.orphaned_s = 0.0
        driver.on_end.append(self._orphan_workers)

    # -- what the engine reads --

    @property
    def applicationId(self) -> str:
        return self._application_id

    @property
    def defaultParallelism(self) -> int:
        return 2

    @property
    def uiWebUrl(self) -> str | None:
        return None

    def isStopped(self) -> bool:
        if self.is_jvm_dead:
            self._use()
        return self._is_stopped

    # -- jobs --

    def next_rdd_id(self) -> int:
        """A new RDD's id."""
        return next(self._rdds)

    def setJobGroup(self, groupId: str, description: str, interruptOnCancel: bool = False) -> None:
        self._use()
        self._groups[self.cluster.scheduler.current] = groupId

    def cancelJobGroup(self, groupId: str, reason: str | None = None) -> None:
        self._use()
        for worker in [worker for worker, (group, _executor) in self.workers.items() if group == groupId]:
            self.cluster.scheduler.kill(worker)

    def cancelAllJobs(self) -> None:
        self._use()
        self._kill_workers()

    def run_job(self, rdd: SimulatedRDD) -> list[list[Any]]:
        """Compute all partitions, each in a worker process."""
        scheduler = self.cluster.scheduler
        self._use()
        group = self._groups.get(scheduler.current, "")
        results = [self._run_task(rdd, index, group) for index in range(rdd.number)]
        rdd.write_checkpoints()
        return results

    def runJob(self, rdd: Any, partitionFunc: Any, partitions: Any = None, allowLocal: bool = False) -> list[Any]:
        computed = rdd.mapPartitionsWithIndex(lambda _index, records: partitionFunc(records))
        chosen = range(rdd.number) if partitions is None else partitions
        return [record for index in chosen for record in self._run_task(computed, index, "")]

    def _run_task(self, rdd: SimulatedRDD, index: int, group: str) -> list[Any]:
        is_receiver = group.startswith(_RECEIVERS)
        error = ""
        for attempt in range(1 if is_receiver else _MAX_FAILURES):
            self._use()
            outcome = self._attempt(rdd, index, group, is_receiver=is_receiver)
            self._use()
            if isinstance(outcome, list):
                return outcome
            error = f"Task {index} failed {attempt + 1} times, most recent failure: {outcome}"
        raise JobFailedError(f"Job aborted due to stage failure: {error}")

    def _attempt(self, rdd: SimulatedRDD, index: int, group: str, *, is_receiver: bool) -> list[Any] | str:
        scheduler = self.cluster.scheduler
        number = next(self._tasks)
        name = group.rpartition("-")[0].rpartition("-")[2] if is_receiver else ""
        worker = scheduler.process(f"receiver {name}.{group.rpartition('-')[2]}" if is_receiver else f"worker {number}")
        outcome: list[list[Any] | str] = []
        executor = scheduler.random.randrange(_EXECUTORS)
        # A receiver's task is its only one: each launch gets a receiver of its own, as by pickling in Spark.
        work = unpickled(rdd) if is_receiver else rdd

        def run() -> None:
            scheduler.elapse(scheduler.random.random() * self.cluster.task_s)
            try:
                if not is_receiver and self.cluster.fails():
                    raise JobFailedError("simulated failure of a task")
                outcome.append(list(work.partition(index)))
            except Exception as error:
                outcome.append(f"{type(error).__name__}: {error}")

        copies = [worker]
        if self.cluster.speculates and not is_receiver:
            copies.append(scheduler.process(f"worker {number} again"))
        tasks = []
        for copy in copies:
            self.workers[copy] = group, executor
            copy.executor = f"{self._application_id}-{executor}"
            tasks.append(copy.spawn("task", run))
        for task in tasks:
            scheduler.join(task)
        for copy in copies:
            self.workers.pop(copy, None)
        return outcome[0] if outcome else "ExecutorLostFailure (Python worker exited unexpectedly)"

    def _orphan_workers(self) -> None:
        scheduler, orphaned_s = self.cluster.scheduler, self.orphaned_s
        for worker in list(self.workers) if orphaned_s else ():
            scheduler.process("simulation").spawn("end of orphans", partial(self._end, worker, orphaned_s))
        if not orphaned_s:
            self._kill_workers()

    def _end(self, worker: SimulatedProcess, after_s: float) -> None:
        self.cluster.scheduler.elapse(after_s)
        self.cluster.scheduler.kill(worker)

    def _kill_workers(self) -> None:
        for worker in list(self.workers):
            self.cluster.scheduler.kill(worker)

    def kill_executor(self, chance: float) -> None:
        """Kill an executor that runs tasks, with all its workers; ``chance``, from 0 to 1, decides which one."""
        executors = sorted({executor for _group, executor in self.workers.values()})
        if executors:
            killed = executors[int(chance * len(executors))]
            for worker in [worker for worker, (_group, executor) in self.workers.items() if executor == killed]:
                self.cluster.scheduler.kill(worker)

    def kill_jvm(self) -> None:
        """Kill the JVM: workers end, and each use of Spark fails."""
        self.is_jvm_dead = True
        self._kill_workers()

    def _use(self) -> None:
        if self.is_jvm_dead:
            raise Py4JNetworkError("Answer from Java side is empty")
        if self._is_stopped:
            raise JobFailedError("Cannot call methods on a stopped SparkContext")

    def receiver_workers(self) -> list[SimulatedProcess]:
        """The processes of running receivers."""
        return [worker for worker, (group, _executor) in self.workers.items() if group.startswith(_RECEIVERS)]

    # -- RDDs --

    def parallelize(self, c: Iterable[Any], numSlices: int | None = None) -> Any:
        self._use()
        records, number = list(c), numSlices or self.defaultParallelism
        return collection_rdd(self, [records[index::number] for index in range(number)])

    def emptyRDD(self) -> Any:
        self._use()
        return collection_rdd(self, [])

    def union(self, rdds: Any) -> Any:
        self._use()
        return united(self, rdds)

    def accumulator(self, value: Any, accum_param: Any = None) -> Any:
        return SimulatedAccumulator(value, accum_param)

    def setCheckpointDir(self, dirName: str) -> None:
        self._use()
        self.checkpoint_directory = f"{dirName}/{_folder_name(self._application_id, next(self._folders))}"

    def stop(self) -> None:
        self._is_stopped = True
        self._kill_workers()


def _folder_name(application_id: str, number: int) -> str:
    """As Spark names them, a UUID."""
    return f"{int(application_id.rpartition('-')[2]):08x}-0000-4000-8000-{number:012x}"


class SimulatedLocalProperties:
    """As ``LocalProperties``; nothing reads the properties of a simulated job."""

    def __init__(self, _sc: Any, _run: str, _attempts: Any = None) -> None:
        self.batch_page = ""

    def put(self, _batch_time_ms: int, _output_op_id: int) -> None:
        """Do nothing."""
