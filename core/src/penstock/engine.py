"""``Engine``: the parts that run a program, from the start of its context to the end.

Owns them: it makes them, starts them and stops them, in order. Never does their work, and knows no state but whether a
stop is still graceful. Made and started on the thread that starts the context, stopped on the one that stops it;
``abandon`` may come from any.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve
from pyspark import SparkContext

from penstock import conf
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.completed_outputs import CompletedOutputs
from penstock.checkpoint.final_states import LastStates
from penstock.checkpoint.recovery import Recovery
from penstock.conf import Settings
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.graph_runtime import GraphRuntime
from penstock.listen.events import CheckpointFailed, StopProgress
from penstock.listen.listener_bus import ListenerBus
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_generator import JobGenerator
from penstock.schedule.job_scheduler import JobScheduler
from penstock.spark import cluster
from penstock.spark.local_properties import LocalProperties
from penstock.track.intake import TrackedIntake
from penstock.track.receiver_tracker import ReceiverTracker

log = get_logger("context")

# A stop that is not graceful lets what runs come to its end for so long.
_QUICK_STOP_S = 10.0
# What a step may take at least, when the deadline has come.
_LAST_STEP_S = 2.0


class Engine:
    """The engine of a context.

    Args:
        sc: runs every job.
        settings: in force.
        clock: the batches' time.
        graph: the program's; gets its doors to the engine.
        bus: tells the listeners; started and stopped here.
        recovery: of a context that writes checkpoints.
        on_error: is told what goes wrong.
        on_give_up: is told why the program should not go on.

    Raises:
        ConfigurationError: the program cannot work as it is.
        CheckpointError: it does not fit the checkpoint that it is to go on from.
        WriteAheadLogError: a journal cannot be read, or is damaged.
    """

    def __init__(
        self,
        sc: SparkContext,
        settings: Settings,
        clock: Clock,
        graph: DStreamGraph,
        bus: ListenerBus,
        recovery: Recovery | None,
        on_error: Callable[[BaseException], None],
        on_give_up: Callable[[BaseException], None],
    ) -> None:
        self._sc, self._settings, self._clock, self._graph, self._bus = sc, settings, clock, graph, bus
        self._recovery, self._on_error = recovery, on_error
        if recovery is not None:
            recovery.prepare()
        self.tracker = ReceiverTracker(
            sc,
            dict(graph.receivers()),
            settings,
            clock,
            bus.post,
            on_give_up,
            graph.checkpoint_directory,
            None if recovery is None else recovery.journal(),
        )
        if recovery is not None:
            self.tracker.restore_rates(recovery.rates, graph.batch_interval_ms)
        self._properties = LocalProperties(sc) if recovery is None else LocalProperties(sc, recovery.attempts)
        self._max_pending = settings[conf.MAX_PENDING_BATCHES]
        self._drops = settings[conf.ON_MAX_PENDING_BATCHES] == "drop-oldest"
        self.scheduler = JobScheduler(
            clock,
            settings[conf.CONCURRENT_JOBS],
            self._properties.put,
            bus.post,
            on_error,
            drop_at=self._max_pending if self._drops else 0,
            max_failed=settings[conf.MAX_FAILED_BATCHES],
            on_give_up=on_give_up,
        )
        self._outputs_done: CompletedOutputs | None = None
        self.checkpointer: Checkpointer | None = None
        self.generator: JobGenerator | None = None
        self._last_states = LastStates(sc, graph.tables())
        self._is_graceful = True

    def start(self, kept: Mapping[str, Callable[[], Any]]) -> None:
        """Start every part.

        Args:
            kept: what listeners keep in checkpoints, by name.

        Raises:
            ConfigurationError: the program cannot work as it is, or no checkpoint can be written.
            CheckpointError: an input does not say where it is.
            WriteAheadLogError: a journal cannot be written.
        """
        recovery, settings = self._recovery, self._settings
        # What may be refused comes first: with a fresh start's first checkpoint what an earlier run left is gone.
        self.tracker.prepare()
        intake = TrackedIntake(self.tracker, settings[conf.PARTITION_BYTES])
        input_info = InputInfoTracker()
        if recovery is not None:
            self._outputs_done = recovery.completed_outputs()
            self.checkpointer = recovery.checkpointer(
                self.tracker.rates,
                kept,
                self._on_checkpoint_failures,
                self.tracker.blocks.forget_streams,
                keeps_blocks=settings[conf.WRITE_AHEAD_LOG],
                outputs=self._outputs_done,
            )
        runtime = GraphRuntime(
            received_blocks=intake,
            report_input=input_info.report,
            completed_outputs=self._outputs_done,
            generation_retries=settings[conf.GENERATION_RETRIES],
            before_output=self._properties.put,
            monotonic_ms=self._clock.monotonic_ms,
        )
        if self.checkpointer is not None:
            checkpointer = self.checkpointer
            runtime = evolve(
                runtime, discard_file=checkpointer.discard_file, recoverable_ms=lambda: checkpointer.recoverable_ms
            )
        self._graph.connect(runtime)
        self.generator = JobGenerator(
            self._clock,
            self._graph,
            self.scheduler,
            intake,
            input_info,
            unpersist=settings[conf.UNPERSIST],
            on_error=self._on_error,
            skip_late=settings[conf.LATE_TICKS] == "skip",
            pause_at=0 if self._drops else self._max_pending,
            checkpoints=self.checkpointer,
        )
        self._bus.start()
        self._last_states.start()
        self.scheduler.start()
        self.tracker.start()
        self.generator.start(None if recovery is None else recovery.resume)

    def stop(self, deadline: float | None) -> None:
        """Stop: intake, flush, the batches that are left, then the rest. A step that fails does not keep the others.

        Args:
            deadline: of a graceful stop as a whole, monotonic seconds; ``None`` for a stop at once.
        """
        if deadline is None:
            self._is_graceful = False
            self.scheduler.abandon()
        end = time.monotonic() + _QUICK_STOP_S if deadline is None else deadline
        drains = deadline is not None
        steps: list[tuple[str, Callable[[], object]]] = [
            ("receivers", lambda: self.tracker.stop(end, drains=drains)),
            ("batches", lambda: self._stop_generator(deadline)),
            ("jobs", lambda: self.scheduler.stop(2.0)),
            ("checkpoint", lambda: self._stop_checkpointer(end)),
            # Not before: the last batches read the receivers' blocks, and tell of those that are gone.
            ("release", self.tracker.release),
            ("files", self.tracker.delete_files),
            ("journal", self.tracker.close),
        ]
        if self._outputs_done is not None:
            steps.append(("journal of outputs", self._outputs_done.close))
        steps.append(("listeners", lambda: self._bus.stop(_closing_s(end, 5.0))))
        for name, step in steps:
            self._step(name, step)

    def abandon(self) -> None:
        """Have a graceful stop wait for nothing any longer; what fails from now on is not complete."""
        self._is_graceful = False
        if self.generator is not None:
            self.generator.abandon()
        self.scheduler.abandon()
        self._last_states.abandon()

    def stop_at_once(self) -> None:
        """The same, and end what runs: what is not processed is left."""
        self.abandon()
        if not cluster.is_stopped(self._sc):
            self._sc.cancelAllJobs()

    def _step(self, name: str, step: Callable[[], object]) -> None:
        log.info("stopping", phase=name)
        self._tell_stopping(name)
        try:
            step()
        except Exception:
            log.exception("a step of stopping failed", phase=name)

    def _tell_stopping(self, phase: str) -> None:
        left = len(self.scheduler.pending_batches)
        if phase == "batches" and left:
            log.info("batches left", count=left)
        self._bus.post(StopProgress(self._clock.now_ms(), phase, left))

    def _stop_generator(self, deadline: float | None) -> None:
        if self.generator is None:
            return
        if not self.generator.stop(deadline, lambda _left: self._tell_stopping("batches")):
            log.warning(
                "stopped before all was processed",
                batches_left=len(self.scheduler.pending_batches),
                records_left=self.tracker.blocks.unallocated_records(),
                graceful=deadline is not None,
            )

    def _stop_checkpointer(self, end: float) -> None:
        # The states as they are now. Where batches are left, the next run goes on from before them.
        if self.checkpointer is not None and self._is_graceful and not self.scheduler.pending_batches:
            self._last_states.write(end)
        else:
            self._last_states.abandon()
        if self.checkpointer is None:
            return
        if self.generator is not None:
            self.generator.save()
        if not self.checkpointer.stop(_closing_s(end, _QUICK_STOP_S)):
            log.warning("the last checkpoint was not written in time")

    def _on_checkpoint_failures(self, count: int, error: BaseException) -> None:
        self._bus.post(CheckpointFailed(self._clock.now_ms(), count, f"{type(error).__name__}: {error}"))


def _closing_s(end: float, most_s: float) -> float:
    """What a last step may take: of what is left until the end, and a little when that has come."""
    return min(max(end - time.monotonic(), _LAST_STEP_S), most_s)
