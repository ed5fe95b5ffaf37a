"""``ExecutorAllocationManager``: a listener that requests and releases executors by the load of the batches.

It has no thread of its own. Batches are submitted every batch interval, whether or not they complete, and at each
submission it checks whether a decision is due. Callbacks run on the listener's own thread, which may wait for the JVM.
"""

from __future__ import annotations

from attrs import define, evolve, field

from penstock import BatchCompleted, BatchStarted, BatchSubmitted, ConfigurationError, ListenerContext
from penstock.spi import get_logger
from penstock_allocation.decision import Cluster, Load, Release, Request, decide
from penstock_allocation.options import AllocationOptions

log = get_logger("allocation")

_PREFIX = "spark.streaming.dynamicAllocation."


@define
class _Interval:
    """The events since the last decision."""

    began_ms: int
    load: Load = field(factory=Load)
    # Submission times of the batches that have not completed, by batch time.
    waiting: dict[int, int] = field(factory=dict)


class ExecutorAllocationManager:
    """Keeps the processing time of batches between two parts of the batch interval.

    Args:
        context: gives access to the executors.
        options: the configuration.
    """

    never_drop = True

    def __init__(self, context: ListenerContext, options: AllocationOptions) -> None:
        self._context = context
        self._options = options
        self._interval: _Interval | None = None
        #: The total number of executors last requested; 0 once they have registered, or after a release.
        self.requested = 0

    def onBatchSubmitted(self, batchSubmitted: BatchSubmitted) -> None:
        """Note a waiting batch, and decide if a decision is due."""
        info = batchSubmitted.batchInfo
        interval = self._interval
        if interval is None:
            interval = self._interval = _Interval(info.submissionTime)
        interval.waiting[info.batchTime] = info.submissionTime
        if info.submissionTime - interval.began_ms >= self._options.scalingInterval * 1000:
            self._decide(info.submissionTime, interval)

    def onBatchStarted(self, batchStarted: BatchStarted) -> None:
        """Nothing: a batch waits until it has completed."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Add a batch that succeeded to the load."""
        info, interval = batchCompleted.batchInfo, self._interval
        if interval is None:
            return
        interval.waiting.pop(info.batchTime, None)
        if info.succeeded and info.processingDelay is not None:
            load = interval.load
            interval.load = evolve(load, delay_ms=load.delay_ms + info.processingDelay, batches=load.batches + 1)

    def _decide(self, now_ms: int, interval: _Interval) -> None:
        oldest_ms = min(interval.waiting.values(), default=now_ms)
        load = evolve(interval.load, waiting_ms=now_ms - oldest_ms)
        self._interval = _Interval(now_ms, waiting=interval.waiting)
        cluster = self._cluster()
        if len(cluster.executors) >= self.requested:
            self.requested = 0
        decision = decide(load, cluster, self._options, self._context.batch_interval_ms)
        numbers = {"executors": len(cluster.executors), "ratio": load.ratio(self._context.batch_interval_ms)}
        match decision:
            case Request(total) if total > self.requested:
                count = total - len(cluster.executors)
                if self._context.request_executors(count):
                    self.requested = total
                    log.info("executors requested", count=count, **numbers)
                else:
                    log.warning("executors not granted", count=count, throttle_s=600, **numbers)
            case Release(executor_id):
                released = self._context.kill_executor(executor_id)
                if released:
                    # A release cancels pending requests.
                    self.requested = 0
                level = log.info if released else log.warning
                level("executor released" if released else "executor not released", executor_id=executor_id, **numbers)

    def _cluster(self) -> Cluster:
        context = self._context
        configuration = context.configuration
        cores, task_cpus = configuration.get("spark.executor.cores", "1"), configuration.get("spark.task.cpus", "1")
        executors, backlogs = context.executors(), context.executor_backlogs()
        # Read last, so that a receiver that leaves its executor meanwhile is noticed.
        infos = context.receiver_infos().values()
        return Cluster(
            executors,
            {info.executorId for info in infos if info.executorId},
            backlogs,
            len(context.receiver_streams),
            max(int(cores) // int(task_cpus), 1),
            all(info.given_up or (info.active and info.executorId) for info in infos),
        )


def managers(context: ListenerContext) -> list[ExecutorAllocationManager]:
    """Create the manager if it is enabled.

    Raises:
        ConfigurationError: an option is invalid, or Spark's own dynamic allocation is enabled, too.
    """
    options = context.options(_PREFIX, AllocationOptions)
    if not options.enabled:
        return []
    if context.configuration.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        raise ConfigurationError(
            f"{_PREFIX}enabled and spark.dynamicAllocation.enabled are both true: Spark would release executors that "
            "this one has requested; set the second to false"
        )
    return [ExecutorAllocationManager(context, options)]
