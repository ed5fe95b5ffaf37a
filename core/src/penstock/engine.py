"""``Engine``: creates, starts and stops the parts that run a program, in order.

The thread that starts the context creates and starts the engine; the thread that stops the context stops it. Any thread
may call ``abandon``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from penstock.checkpoint.checkpointer import Checkpointer, FinalStateCheckpoint
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import RecoveredRun, Recovery
from penstock.graph.dstream_graph import GraphRuntime
from penstock.listen.events import StopProgress
from penstock.listen.listener_bus import ListenerBus
from penstock.runtime.clock import iso_time
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread, contain_errors
from penstock.schedule.job_generator import JobGenerator
from penstock.schedule.job_scheduler import JobScheduler
from penstock.spark import cluster, failure
from penstock.spark.local_properties import LocalProperties
from penstock.spark.rdd_files import delete_file
from penstock.track.block_logs import BlockLogs
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_launcher import ReceiverLauncher
from penstock.track.receiver_tracker import ReceiverTracker

log = get_logger("engine")

# Time for running work to end in an immediate stop.
_QUICK_STOP_S = 10.0
# Minimum time for a closing step, even after the deadline.
_LAST_STEP_S = 2.0
# The longest wait for the preparation of the streams: a cluster may have no executor yet.
_PREPARATION_S = 15.0


class Engine:
    """The parts that run the program of one StreamingContext. Starts and stops the listener bus, too.

    ``on_error`` is called with every error of a batch or of the engine, ``on_give_up`` with the reason when the program
    must stop. ``recovery`` is ``None`` without checkpoints.
    """

    def __init__(
        self,
        program: Program,
        bus: ListenerBus,
        recovery: Recovery | None,
        on_error: Callable[[BaseException], None],
        on_give_up: Callable[[BaseException], None],
    ) -> None:
        sc, settings, clock, graph = program.sc, program.settings, program.clock, program.graph
        self._program = program
        self.bus = bus
        self._on_error = on_error
        self._on_give_up = on_give_up
        # Before the claim: a program that cannot run takes the checkpoint directory from nobody.
        ReceiverLauncher(sc, dict(graph.receivers()), settings).check()
        self._run: RecoveredRun | None = None if recovery is None else recovery.prepare()
        receivers = dict(graph.receivers())
        if self._run is None:
            blocks = ReceivedBlockTracker(receivers, None)
            logs = BlockLogs.of(sc, settings, None, receivers)
        else:
            blocks = ReceivedBlockTracker(receivers, self._run.block_log)
            directory = self._run.directory
            logs = BlockLogs.of(sc, settings, directory.name, receivers, directory.claim)
        launcher = ReceiverLauncher(sc, receivers, settings, logs)
        self.tracker = ReceiverTracker(launcher, blocks, clock, bus.post, on_give_up)
        self._properties = LocalProperties(sc, launcher.run_id)
        if self._run is not None:
            self.tracker.restore_rates(self._run.first.rates, graph.batch_interval_ms)
            self._properties = LocalProperties(sc, self._run.first.run, self._run.first.attempts)
        self.scheduler = JobScheduler(
            settings,
            clock,
            self._properties.put,
            bus.post,
            on_error,
            on_give_up,
            is_recoverable=self._run is not None,
        )
        self.checkpointer: Checkpointer | None = None
        self.generator: JobGenerator | None = None
        self._final_state = FinalStateCheckpoint(sc, graph.stateful_streams())
        self._is_graceful = True

    def name_batch_page(self, address: str) -> None:
        """Set the address of a batch's page for the descriptions of Spark's jobs; see ``LocalProperties``."""
        self._properties.batch_page = address

    def start(self, listener_values: Mapping[str, Callable[[], Any]]) -> None:
        """Start every part; ``listener_values`` return the values to save in checkpoints, by listener name."""
        settings, graph, clock = self._program.settings, self._program.graph, self._program.clock
        # Checks that may refuse the start come first, because the first checkpoint replaces an earlier run's.
        self.tracker.prepare()
        runtime = GraphRuntime(
            received_blocks=self.tracker,
            partition_min_bytes=settings.partition_min_bytes,
            report_input=self.scheduler.input_info.report,
            before_output=self._properties.put,
            monotonic_ms=clock.monotonic_ms,
            discard_file=partial(delete_file, self._program.sc),
        )
        if self._run is not None:
            if self._run.directory.claim is not None:
                self._run.directory.claim.on_lost = self._on_give_up
            checkpointer = Checkpointer(
                self._program, self._run, self.tracker, listener_values, self.bus.post, self._release_blocks
            )
            self.checkpointer = checkpointer
            checkpointer.start()
            runtime = evolve(
                runtime,
                completed_outputs=self._run.completed_outputs,
                discard_file=checkpointer.discard_file,
                recoverable_ms=lambda: checkpointer.recoverable_ms,
            )
        graph.connect(runtime)
        self.generator = JobGenerator(
            settings, clock, graph, self.scheduler, self.tracker, self._on_error, self.checkpointer
        )
        self.bus.start()
        self._final_state.start()
        self._prepare()
        self.scheduler.start(self.generator.batch_completed)
        self.tracker.start()
        self.generator.start(None if self._run is None else self._run.batches)
        log.info(
            "streaming started",
            batch_interval_ms=graph.batch_interval_ms,
            receivers=len(dict(graph.receivers())),
            outputs=len(graph.outputs),
        )

    def _prepare(self) -> None:
        """Prepare the streams before receivers start: a batch that waits for it would mislead the rate estimator."""
        began = time.monotonic()
        thread = EngineThread(
            "StreamPreparation", partial(contain_errors, self._program.graph.prepare, _log_unprepared)
        )
        thread.start()
        if thread.finish(_PREPARATION_S):
            log.debug("preparation of streams ended", took_ms=round(1000 * (time.monotonic() - began)))
        else:
            log.info("preparation of streams continues in the background", waited_s=_PREPARATION_S)

    def stop(self, deadline: float | None) -> None:
        """Stop receivers, flush, run the remaining batches, close the rest. A failed step does not stop the others.

        A graceful stop ends by the deadline (monotonic seconds); ``None`` stops at once.
        """
        if deadline is None:
            self._is_graceful = False
            self.scheduler.abandon()
        end = time.monotonic() + _QUICK_STOP_S if deadline is None else deadline
        drains = deadline is not None
        log.info("streaming stop begun", graceful=drains, timeout_s=round(end - time.monotonic(), 1))
        steps: list[tuple[str, Callable[[], object]]] = [
            ("receivers", lambda: self.tracker.stop(end, drains=drains)),
            ("batches", lambda: self._stop_generator(deadline)),
            ("jobs", lambda: self.scheduler.stop(2.0)),
            ("checkpoint", lambda: self._stop_checkpointer(end)),
            # Before the endpoint closes, which waits for blocks that a hung file system is still adding.
            ("write-ahead log", self.tracker.close),
            # After the batches, because the last batches read the receivers' blocks and report lost ones.
            ("release", self.tracker.release),
            ("files", self.tracker.delete_files),
        ]
        if self._run is not None and self._run.completed_outputs is not None:
            steps.append(("completed outputs", self._run.completed_outputs.close))
        steps.append(("listeners", lambda: self.bus.stop(_closing_s(end, 5.0))))
        for name, step in steps:
            log.debug("stop phase begun", phase=name)
            self._post_progress(name)
            try:
                step()
            except Exception:
                log.exception("stop phase failed", phase=name)
        log.info("streaming stopped", batches_left=len(self.scheduler.pending_batches))
        if failed := self.scheduler.failed_batches:
            effect = "a restart from the checkpoint runs them again" if self._run is not None else "their data is lost"
            log.warning("failed batches remain", count=len(failed), oldest=iso_time(failed[0]), effect=effect)

    def abandon(self) -> None:
        """End every wait of a graceful stop; batches that fail from now on are not complete."""
        self._is_graceful = False
        if self.generator is not None:
            self.generator.abandon()
        self.scheduler.abandon()
        self._final_state.abandon()

    def stop_at_once(self) -> None:
        """Turn a graceful stop into an immediate one: ``abandon``, and cancel the running jobs."""
        self.abandon()
        if not cluster.is_stopped(self._program.sc):
            self._program.sc.cancelAllJobs()

    def _post_progress(self, phase: str) -> None:
        left = len(self.scheduler.pending_batches)
        if phase == "batches" and left:
            log.info("batches remaining", count=left)
        self.bus.post(StopProgress(self._program.clock.now_ms(), phase, left))

    def _stop_generator(self, deadline: float | None) -> None:
        if self.generator is None:
            return
        if not self.generator.stop(deadline, lambda _left: self._post_progress("batches")):
            log.warning(
                "stopped with unprocessed input",
                batches_left=len(self.scheduler.pending_batches),
                records_left=self.tracker.blocks.unallocated_records(),
                graceful=deadline is not None,
            )

    def _stop_checkpointer(self, end: float) -> None:
        # With batches remaining, the next run recovers from a state before them.
        if self.checkpointer is not None and self._is_graceful and not self.scheduler.pending_batches:
            self._final_state.write(end)
        else:
            self._final_state.abandon()
        if self.checkpointer is None:
            return
        if self.generator is not None:
            self.generator.save()
        if not self.checkpointer.stop(_closing_s(end, _QUICK_STOP_S)):
            log.warning(
                "last checkpoint not written before the deadline", effect="the next run recovers from an earlier one"
            )

    def _release_blocks(self, before_ms: int, retained: Sequence[range]) -> None:
        if self.generator is not None:
            self.generator.release_blocks(before_ms, retained)


def _log_unprepared(error: BaseException) -> None:
    log.warning(
        "streams not prepared", reason=failure.reason(error), effect="the first batch takes some seconds longer"
    )


def _closing_s(end: float, most_s: float) -> float:
    """The time for a closing step in seconds: the time until the end, within bounds."""
    return min(max(end - time.monotonic(), _LAST_STEP_S), most_s)
