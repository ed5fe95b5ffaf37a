"""Launching a receiver: one Spark job of one task that runs for as long as the receiver lives.

The life cycle decides when a receiver is launched, the placement decides on which executor.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import SparkContext

from penstock.blocks.block_directories import Process
from penstock.blocks.block_transfer import RECEIVER_PORT_ADVICE, source_of
from penstock.conf import Settings
from penstock.errors import ConfigurationError
from penstock.plugins.discovery import installed, origin_of
from penstock.receive.messages import RegisterReceiver, launch_name
from penstock.receive.receiver import Receiver, check_picklable
from penstock.receive.receiver_task import Driver, ReceiverTask
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.spark.rdds import LocatedPartition, located_rdd
from penstock.spark.spark_conf import conf_of
from penstock.track.block_logs import BlockLogs
from penstock.track.placement import Placement
from penstock.track.receiver_connection import ReceiverConnection
from penstock.track.receiver_tracking_info import BlockLocation
from penstock.wire.client import Client
from penstock.wire.token import Tls, Token

log = get_logger("receiver_launcher")

#: The name of the tasks' token.
READERS = "tasks"

# Attempts to find the executor of a job's task, and the pause between them: Spark updates its status with a delay.
_LOCATION_TRIES, _LOCATION_PAUSE_S = 20, 0.1


class ReceiverJob:
    """The Spark job of one launch. ``on_end`` is called on the job's own thread, with the error of a failed job."""

    def __init__(
        self,
        sc: SparkContext,
        task: ReceiverTask,
        hosts: tuple[str, ...],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self.task = task
        self._sc = sc
        self._hosts = hosts
        self._on_end = on_end
        #: The job group.
        self.group = f"penstock-receiver-{task.driver.run_id}-{task.stream_id}-{task.epoch}"
        self._thread = EngineThread(f"receiver {task.stream_id} launch {task.epoch}", self._run)

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job; a failure is logged."""
        try:
            self._sc.cancelJobGroup(self.group)
        except Exception as error:
            log.warning("receiver job not cancelled", stream_id=self.task.stream_id, reason=failure.reason(error))

    def finish(self, timeout_s: float) -> bool:
        """Wait for the end of the job; return whether it has ended."""
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
    """Creates the jobs of receivers, by stream id, and connects to them."""

    def __init__(
        self,
        sc: SparkContext,
        receivers: Mapping[int, Receiver[Any]],
        settings: Settings,
        logs: BlockLogs | None = None,
    ) -> None:
        self.sc = sc
        self.receivers = receivers
        self.settings = settings
        #: Name of the directories of blocks: those of consecutive contexts of one application must differ.
        self.run_id = f"{sc.applicationId}-{secrets.token_hex(4)}"
        self.logs = logs
        #: Whether driver and executors share this machine.
        self.on_this_machine = cluster.is_on_this_machine(sc)
        self.placement = Placement(sc, settings)
        #: The driver's own token, from which the tokens of launches and tasks are derived.
        self.token = Token.generate(Tls.of(settings))
        #: The token of tasks, from which the tokens for reading the blocks of a launch are derived.
        self.reader_token = self.token.derive(READERS)
        self._installed = installed()
        #: The driver's address for receivers and tasks: ``grpc://host:port``.
        self.driver_location = ""

    def refusal(self, message: RegisterReceiver) -> str:
        """Message for a receiver whose plugin has another version on the executor; empty if the receiver may start."""
        here = self._origin(message.stream_id)
        if not here or not message.plugin or here == message.plugin:
            return ""
        return (
            f"host {message.host} runs {message.plugin} and the driver {here}: install the same version on the driver "
            "and all executors, or send the driver's in an archive with --archives"
        )

    def reason(self, stream_id: int, error: BaseException) -> str:
        """The reason why a receiver's job failed, in one line, with a remedy if the executor lacks a module."""
        package = failure.missing_module(error).partition(".")[0]
        is_plugin = package == type(self.receivers[stream_id]).__module__.partition(".")[0]
        return failure.reason(error, self._origin(stream_id) if is_plugin else "")

    def _origin(self, stream_id: int) -> str:
        return origin_of(type(self.receivers[stream_id]), self._installed)

    def set_driver_port(self, port: int) -> None:
        """Have receivers register at this port of the driver."""
        host = "127.0.0.1" if self.on_this_machine else cluster.driver_host(self.sc)
        self.driver_location = self.token.location(host, port)

    def check(self) -> None:
        """Raise ``ConfigurationError`` for a receiver that cannot be launched."""
        if self.receivers:
            _check_cores(self.sc, len(self.receivers))
            _check_speculation(self.sc)
        for stream_id, receiver in self.receivers.items():
            check_picklable(receiver, f" of stream {stream_id}")
        _report_storage_levels(self.sc, self.receivers)

    def make_job(
        self,
        stream_id: int,
        epoch: int,
        candidates: Sequence[TaskLocation],
        on_end: Callable[[BaseException | None], None],
    ) -> ReceiverJob:
        """The job of a launch, not submitted yet."""
        process = Process.of(os.getpid()) if self.on_this_machine else None
        name = launch_name(stream_id, epoch)
        token, readers = self.token.derive(name), self.reader_token.derive(name)
        driver = Driver(self.driver_location, token, self.run_id, process, readers)
        logs = "" if self.logs is None else self.logs.directory(stream_id)
        task = ReceiverTask(self.receivers[stream_id], stream_id, epoch, driver, self.settings, logs)
        return ReceiverJob(self.sc, task, tuple(candidate.preference for candidate in candidates), on_end)

    def location_of(self, job: ReceiverJob, stopping: threading.Event) -> TaskLocation | None:
        """The executor that runs a job's task; ``None`` when Spark does not report it. May take two seconds."""
        for _ in range(_LOCATION_TRIES):
            location = cluster.running_task(self.sc, job.group)
            if location is not None or stopping.wait(_LOCATION_PAUSE_S):
                return location
        return None

    def connect(
        self,
        message: RegisterReceiver,
        location: BlockLocation,
        undelivered: Callable[[ReceiverConnection, object], None],
    ) -> ReceiverConnection:
        """Connect to a launch that has registered."""
        # A receiver that cannot be reached has most likely died: no retry.
        endpoint = self.token.location(message.host, message.port)
        timeout_ms = self.settings.wire_timeout_ms
        name = launch_name(message.stream_id, message.epoch)
        client = Client(endpoint, self.token.derive(name), timeout_ms, retry=False, advice=RECEIVER_PORT_ADVICE)
        return ReceiverConnection(message.stream_id, location, client, source_of(endpoint, name), undelivered)


# -- checks --


def _check_cores(sc: SparkContext, receivers: int) -> None:
    """Refuse a master whose cores the receivers would all occupy: none would remain for batches."""
    if (cores := cluster.fixed_cores(sc)) is not None and cores <= receivers:
        local = cluster.local_cores(sc) is not None
        instead = (
            f"Use local[{receivers + 1}] or more" if local else f"Have executors with {receivers + 1} cores in all"
        )
        raise ConfigurationError(
            f"master {sc.master} has {cores} core{'s' * (cores != 1)} and the program {receivers} "
            f"receiver{'s' * (receivers != 1)}: each receiver occupies one for as long as it runs, so no batch could "
            f"ever run. {instead}."
        )


def _check_speculation(sc: SparkContext) -> None:
    """Refuse a configuration with which Spark starts second copies of receivers, which look like slow tasks."""
    # In a stage with a single task Spark speculates only with this threshold.
    settings, threshold = conf_of(sc), "spark.speculation.task.duration.threshold"
    if str(settings.get("spark.speculation", "false")).lower() == "true" and settings.get(threshold):
        raise ConfigurationError(
            f"with {threshold}={settings.get(threshold)} Spark would run a second copy of each receiver after that "
            "time, and stop the first: unset it, or set spark.speculation=false"
        )


def _report_storage_levels(sc: SparkContext, receivers: Mapping[int, Receiver[Any]]) -> None:
    """Log, once for all receivers, that blocks are not replicated although a storage level requests it."""
    replicated = [
        stream_id
        for stream_id, receiver in receivers.items()
        if receiver.storageLevel is not None and receiver.storageLevel.replication > 1
    ]
    if replicated:
        # On one machine, a second copy would be lost with the first.
        write = log.info if cluster.is_on_this_machine(sc) else log.warning
        write("storage level without effect: blocks are not replicated", stream_ids=replicated)
