"""A simulated cluster: a SparkContext without a JVM, whose jobs run in simulated worker processes.

RDDs are evaluated as plain Python. A task takes virtual time, and may fail or be lost with its process; a job fails
after four failures of a task, as in Spark. RDD checkpoints are files on the simulated disk.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import RDD, SparkConf, SparkContext, StorageLevel, cloudpickle
from pyspark.core.rdd import Partitioner, portable_hash
from pyspark.serializers import read_long

from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess, Task
from penstock_testing.simulation.simulated_disk import SimulatedDisk

_Compute = Callable[[int], Iterable[Any]]
_MAX_FAILURES = 4
_EXECUTORS = 2
# Begins the job groups of receivers.
_RECEIVERS = "penstock-receiver-"


class JobFailedError(Exception):
    """A job of the simulated cluster failed."""


class SimulatedRDD(RDD[Any]):
    """Partitions that a function computes; the result is remembered while the RDD is persisted."""

    def __init__(
        self, sc: SimulatedSparkContext, number: int, compute: _Compute, parents: Sequence[SimulatedRDD] = ()
    ) -> None:
        self.ctx = self._sc = sc
        self.number = number
        self.partitioner: Any = None
        self.is_cached = False
        self.is_checkpointed = False
        self.has_resource_profile = False
        self._number_of_rdd = sc.next_rdd_id()
        self._name: str | None = None
        self._compute = compute
        self._parents = tuple(parents)
        self._persisted: dict[int, list[Any]] = {}
        self._file: str | None = None

    # -- as Spark's --

    def _is_barrier(self) -> bool:
        return False

    def id(self) -> int:
        return self._number_of_rdd

    def name(self) -> str | None:
        return self._name

    def setName(self, name: str) -> SimulatedRDD:
        self._name = name
        return self

    def getNumPartitions(self) -> int:
        return self.number

    def mapPartitionsWithIndex(self, f: Any, preservesPartitioning: bool = False) -> SimulatedRDD:
        mapped = SimulatedPipelinedRDD(self, f)
        if preservesPartitioning:
            mapped.partitioner = self.partitioner
        return mapped

    def partitionBy(self, numPartitions: Any, partitionFunc: Any = portable_hash) -> Any:
        partitioner = Partitioner(numPartitions, partitionFunc)
        if self.partitioner == partitioner:
            return self

        def compute(index: int) -> Iterator[Any]:
            pairs = (pair for number in range(self.number) for pair in self.partition(number))
            return (pair for pair in pairs if partitionFunc(pair[0]) % numPartitions == index)

        shuffled = SimulatedRDD(self._sc, numPartitions, compute, [self])
        shuffled.partitioner = partitioner
        return shuffled

    def union(self, other: Any) -> Any:
        return self._sc.union([self, other])

    def persist(self, storageLevel: StorageLevel = StorageLevel.MEMORY_ONLY) -> Any:
        self.is_cached = True
        return self

    def unpersist(self, blocking: bool = False) -> Any:
        self.is_cached = False
        self._persisted = {}
        return self

    def checkpoint(self) -> None:
        self.is_checkpointed = True

    def isCheckpointed(self) -> bool:
        return self._file is not None

    def getCheckpointFile(self) -> str | None:
        return self._file

    def collect(self) -> list[Any]:
        return [record for partition in self._sc.run_job(self) for record in partition]

    def count(self) -> int:
        return len(self.collect())

    # -- evaluation, in a task --

    def partition(self, index: int) -> list[Any]:
        """The records of a partition."""
        if index in self._persisted:
            return self._persisted[index]
        if self._file is not None:
            records: list[Any] = pickle.loads(self._sc.disk.content(f"{self._file}/part-{index:05d}"))
        else:
            records = list(self._compute(index))
        if self.is_cached or self.is_checkpointed:
            self._persisted[index] = records
        return records

    def write_checkpoints(self) -> None:
        """Write the files of all marked ancestors, and of this RDD, after a job."""
        for parent in self._parents:
            if self._file is None:
                parent.write_checkpoints()
        if self.is_checkpointed and self._file is None:
            file = f"{self._sc.checkpoint_directory}/rdd-{self._number_of_rdd}"
            for index in range(self.number):
                path, data = f"{file}/part-{index:05d}", cloudpickle.dumps(self.partition(index))
                self._sc.disk.operate("write", path)
                self._sc.disk.put(path, data, sync=False)
            self._file = file
            self._parents = ()


class SimulatedPipelinedRDD(SimulatedRDD):
    """The result of a partition function."""

    def __init__(self, prev: SimulatedRDD, func: Callable[[int, Iterable[Any]], Iterable[Any]]) -> None:
        super().__init__(prev._sc, prev.number, lambda index: func(index, iter(prev.partition(index))), [prev])
        self.prev = prev
        self.func = func


class SimulatedBlocksRDD(SimulatedPipelinedRDD):
    """As ``BlocksRDD``."""

    def __init__(self, slots: SimulatedRDD, number: int, read: Any, count: Any, blocks: Any = None) -> None:
        super().__init__(slots, read)
        self.number = number
        self._count_partition = count
        self.blocks = blocks

    def count(self) -> int:
        return sum(self.mapPartitionsWithIndex(self._count_partition).collect())


def collection_rdd(sc: SimulatedSparkContext, partitions: Sequence[Sequence[Any]]) -> SimulatedRDD:
    """An RDD of given partitions."""
    held = [list(partition) for partition in partitions]
    return SimulatedRDD(sc, len(held), lambda index: held[index])


def united(sc: SimulatedSparkContext, rdds: Sequence[SimulatedRDD]) -> SimulatedRDD:
    """The partitions of several RDDs, one after the other."""
    places = [(rdd, index) for rdd in rdds for index in range(rdd.number)]
    return SimulatedRDD(sc, len(places), lambda number: places[number][0].partition(places[number][1]), rdds)


def located_rdd(sc: SimulatedSparkContext, partitions: Sequence[Any]) -> SimulatedRDD:
    """As ``penstock.spark.rdds.located_rdd``; every host is the same."""
    return collection_rdd(sc, [[partition.element] for partition in partitions])


def shuffled(chunks: SimulatedRDD, num_partitions: int) -> SimulatedRDD:
    """As ``penstock.spark.rdds.shuffled``."""

    def compute(index: int) -> Iterator[Any]:
        for number in range(chunks.number):
            items = chunks.partition(number)
            for target, chunk in zip(items[::2], items[1::2], strict=True):
                if read_long(io.BytesIO(target)) == index:
                    yield pickle.loads(chunk)

    result = SimulatedRDD(chunks._sc, num_partitions, compute, [chunks])
    result.partitioner = Partitioner(num_partitions, portable_hash)
    return result


def co_partitioned_union(sc: SimulatedSparkContext, rdds: Sequence[SimulatedRDD], num_partitions: int) -> SimulatedRDD:
    """As ``penstock.spark.rdds.co_partitioned_union``."""
    if len(rdds) == 1:
        return rdds[0]
    partitioner = rdds[0].partitioner
    if any(rdd.partitioner != partitioner or rdd.number != num_partitions for rdd in rdds):
        raise ValueError(f"the {len(rdds)} RDDs do not have the same partitioner into {num_partitions} partitions")

    def compute(index: int) -> Iterator[Any]:
        return itertools.chain.from_iterable(rdd.partition(index) for rdd in rdds)

    result = SimulatedRDD(sc, num_partitions, compute, rdds)
    result.partitioner = partitioner
    return result


def checkpointed_state(
    sc: SimulatedSparkContext, path: str, num_partitions: int, partition_function: Any
) -> SimulatedRDD:
    """As ``penstock.spark.rdds.checkpointed_state``."""
    parts = [name for name in sc.disk.below(path) if name.rpartition("/")[2].startswith("part-")]
    if len(parts) != num_partitions:
        raise FileNotFoundError(f"{path} has {len(parts)} of {num_partitions} partitions")
    result = SimulatedRDD(sc, num_partitions, lambda index: pickle.loads(sc.disk.content(parts[index])))
    result.partitioner = Partitioner(num_partitions, partition_function)
    return result


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
        work = _unpickled(rdd) if is_receiver else rdd

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


def _unpickled(rdd: SimulatedRDD) -> SimulatedRDD:
    assert isinstance(rdd, SimulatedPipelinedRDD)
    return SimulatedPipelinedRDD(rdd.prev, pickle.loads(cloudpickle.dumps(rdd.func)))


def _folder_name(application_id: str, number: int) -> str:
    """As Spark names them, a UUID."""
    return f"{int(application_id.rpartition('-')[2]):08x}-0000-4000-8000-{number:012x}"


class SimulatedLocalProperties:
    """As ``LocalProperties``; nothing reads the properties of a simulated job."""

    def __init__(self, _sc: Any, _run: str, _attempts: Any = None) -> None:
        self.batch_page = ""

    def put(self, _batch_time_ms: int, _output_op_id: int) -> None:
        """Do nothing."""
