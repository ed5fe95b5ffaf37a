"""Launching a receiver: one Spark job of one task that runs for as long as the receiver lives.

Decides nothing: whether, when and where a receiver is launched is the life cycle's and the placement's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import SparkContext

from penstock.blocks.leftovers import Process
from penstock.conf import Settings
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_task import ReceiverTask
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.spark.located_rdd import LocatedPartition, located_rdd
from penstock.wire.token import Token

log = get_logger("receiver_launcher")

# How often, and at what distance, Spark is asked where a job's task runs: its status lags behind.
_LOCATION_TRIES, _LOCATION_PAUSE_S = 20, 0.1


class ReceiverJob:
    """The Spark job of one launch; owns the thread that waits for it.

    Args:
        sc: runs the job.
        task: what to run.
        hosts: preferred locations; none for anywhere.
        on_end: called on the job's thread when it has ended: with ``None``, or with the error that it failed with.
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
        #: The job group.
        self.group = f"penstock-receiver-{task.run_id}-{task.stream_id}-{task.epoch}"
        self._thread = EngineThread(f"receiver {task.stream_id} launch {task.epoch}", self._run)

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job."""
        self._sc.cancelJobGroup(self.group)

    def finish(self, timeout_s: float) -> bool:
        """Wait for the end of the job; say whether it has ended."""
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


class ReceiverLauncher:
    """Start and cancel the jobs of receivers.

    Args:
        sc: runs the jobs.
        settings: in force.
        run_id: names the directory of the blocks.
        token: shown by both sides.
        log_directory: the write-ahead log of a stream's receiver; empty when there is none.
    """

    def __init__(
        self, sc: SparkContext, settings: Settings, run_id: str, token: Token, log_directory: Callable[[int], str]
    ) -> None:
        self._sc, self._settings, self._run_id, self._token = sc, settings, run_id, token
        self._log_directory = log_directory
        #: Where receivers, and tasks, reach the driver: ``grpc://host:port``.
        self.driver_location = ""

    def set_driver_port(self, port: int) -> None:
        """Have receivers register at this port of the driver."""
        local = cluster.is_on_this_machine(self._sc)
        self.driver_location = self._token.location("127.0.0.1" if local else cluster.driver_host(self._sc), port)

    def start(
        self,
        stream_id: int,
        receiver: Receiver[Any],
        epoch: int,
        candidates: Sequence[TaskLocation],
        on_end: Callable[[BaseException | None], None],
    ) -> ReceiverJob:
        """Submit the job of a launch."""
        task = ReceiverTask(
            receiver,
            stream_id,
            epoch,
            self._run_id,
            self.driver_location,
            self._token,
            self._settings,
            Process.of(os.getpid()) if cluster.is_on_this_machine(self._sc) else None,
            self._log_directory(stream_id),
        )
        job = ReceiverJob(self._sc, task, tuple(candidate.preference for candidate in candidates), on_end)
        job.start()
        return job

    def cancel(self, job: ReceiverJob) -> None:
        """Cancel a job; a failure is logged."""
        try:
            job.cancel()
        except Exception as error:
            log.warning("receiver job not cancelled", stream_id=job.task.stream_id, reason=failure.reason(error))

    def location_of(self, job: ReceiverJob, stopping: threading.Event) -> TaskLocation | None:
        """The executor that runs a job's task; ``None`` when Spark does not report it. May take two seconds."""
        for _ in range(_LOCATION_TRIES):
            location = cluster.running_task(self._sc, job.group)
            if location is not None or stopping.wait(_LOCATION_PAUSE_S):
                return location
        return None
