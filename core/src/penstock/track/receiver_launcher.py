"""Launching a receiver: one Spark job of one task, for as long as the receiver lives.

Owns the thread that waits for the job. Never decides whether to launch again: it tells how the job ended.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import SparkContext

from penstock.receive.receiver_task import ReceiverTask
from penstock.runtime.threads import EngineThread
from penstock.spark.located_rdd import LocatedPartition, located_rdd


def job_group(run_id: str, stream_id: int, epoch: int) -> str:
    """The Spark job group of one launch."""
    return f"penstock-receiver-{run_id}-{stream_id}-{epoch}"


class ReceiverLaunch:
    """One launch.

    Args:
        sc: runs the job.
        task: what to run.
        hosts: where, if there is a choice.
        on_end: is told how the job ended: ``None`` for well, else the error. On the launch's own thread.
    """

    def __init__(
        self,
        sc: SparkContext,
        task: ReceiverTask,
        hosts: tuple[str, ...],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self.task = task
        self._sc, self._hosts, self._on_end = sc, hosts, on_end
        self.group = job_group(task.run_id, task.stream_id, task.epoch)
        self._thread = EngineThread(f"receiver {task.stream_id} launch {task.epoch}", self._run)

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()

    def cancel(self) -> None:
        """End the job by force."""
        self._sc.cancelJobGroup(self.group)

    def finish(self, timeout_s: float) -> bool:
        """Wait for the job's end; say whether it came."""
        return self._thread.finish(timeout_s)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._sc.setJobGroup(self.group, f"Streaming job running receiver {self.task.stream_id}")
            rdd = located_rdd(self._sc, [LocatedPartition(None, self._hosts)])
            rdd.setName(f"Receiver {self.task.stream_id}")
            rdd.mapPartitionsWithIndex(self.task).count()
        except Exception as caught:
            error = caught
        self._on_end(error)
