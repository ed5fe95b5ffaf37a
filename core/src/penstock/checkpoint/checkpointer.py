"""``Checkpointer``: writes the checkpoints of a run and deletes files that no retained checkpoint refers to.

The generator's loop collects a checkpoint; the writer's thread writes it and deletes files. At most one checkpoint
waits. A younger one replaces it, because it covers everything in the older one.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve
from pyspark import SparkContext

from penstock.checkpoint.checkpoint_format import (
    RECEIVED_DATA,
    BatchRange,
    Checkpoint,
    LateBatches,
    SavedInput,
    SavedState,
)
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import RecoveredRun
from penstock.checkpoint.restore.restore_streams import restore_sequence
from penstock.checkpoint.stream_names import assign, function_name
from penstock.errors import CheckpointError, ClaimLostError, summary_of
from penstock.graph.stateful import StatefulDStream
from penstock.listen.events import CheckpointFailed, Event
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.runtime.threads import EngineThread
from penstock.schedule.unfinished_batches import UnfinishedBatches
from penstock.spark import failure
from penstock.track.receiver_tracker import ReceiverTracker

log = get_logger("checkpoint")

# Attempts after the first, as Spark, and the delays before them.
_RETRIES = 2
_FIRST_DELAY_MS, _LONGEST_DELAY_MS = 10, 100
# Consecutive failed checkpoints after which listeners are notified.
_MAX_FAILURES = 3


class Checkpointer:
    """Writes the checkpoints of a run, with the values that ``listeners`` return.

    ``release_blocks`` is called with a time in ms and ranges of batch times: no retained checkpoint needs blocks of
    strictly older batches that are in none of the ranges.
    """

    def __init__(
        self,
        program: Program,
        run: RecoveredRun,
        tracker: ReceiverTracker,
        listeners: Mapping[str, Callable[[], Any]],
        post: Callable[[Event], None],
        release_blocks: Callable[[int, Sequence[range]], object],
    ) -> None:
        self._graph = program.graph
        self._clock = program.clock
        self._run = run
        self._tracker = tracker
        self._listeners = listeners
        self._post = post
        self._release_blocks = release_blocks
        self._directory = run.directory
        self._store = run.directory.store
        self._stream_ids = {stream.id for stream in self._graph.inputs}
        first = run.first
        self._first = evolve(first, next_stream_id=max([first.next_stream_id, *(id + 1 for id in self._stream_ids)]))
        #: The oldest batch time that state is recovered from, ms; ``None`` if the program has no state.
        self.recoverable_ms: int | None = None
        self._number = first.number
        self._listener_values = dict(first.listeners)
        self._forgotten: set[int] = set()
        self._folders = list(first.folders)
        self._states = assign(self._graph.stateful_streams(), self._graph.streams())
        self._inputs = assign(self._graph.inputs, [*self._graph.inputs, *self._graph.streams()])
        # Checkpointed RDDs that the last checkpoint named, and the files of each state store that are on the disk.
        self._named: set[str] = set()
        self._synced: dict[str, set[str]] = {}
        # Files that no stream needs, with the number of the first checkpoint that does not mention the file.
        self._discarded: deque[tuple[int, str]] = deque()
        # Guards what the loop and the writer's thread share.
        self._changed = threading.Condition()
        # The next checkpoint to write, or the error of collecting it.
        self._waiting: Checkpoint | Exception | None = None
        self._stopping = False
        #: Consecutive checkpoints that could not be written.
        self.failures = 0
        self._writer = EngineThread("checkpoint-writer", self._write_all)

    @property
    def written_ms(self) -> int | None:
        """When the content of the last written checkpoint was collected; ``None`` before the first."""
        retained = self._store.retained
        return retained[-1].written_ms if retained else None

    def start(self) -> None:
        """Write the first checkpoint on the calling thread, then start the writer's thread."""
        # With the positions of sources: data that arrives before the first batch is new for a recovered run.
        first = evolve(self._first, inputs=self._saved_inputs(), logged_events=self._run.logged_events())
        with self._directory.errors():
            oldest = self._put(first)
            # Only after this write may the run delete files of earlier runs.
            if self._run.completed_outputs is not None:
                self._run.completed_outputs.start()
            self._clean_up(oldest)
        self._writer.start()
        self._directory.delete_empty_folders()
        for folder in self._run.obsolete:
            self._directory.delete_folder(folder)

    def begin(self, zero_time_ms: int) -> None:
        """Write a checkpoint with zero time, before the first batch is generated; on the calling thread."""
        self._put(self._collected(zero_time_ms, UnfinishedBatches(zero_time_ms)))

    def save(self, batches: UnfinishedBatches, needed_ms: int, skipped: Sequence[range] = ()) -> None:
        """Collect a checkpoint and queue it for writing; a failure to collect it counts as a failure to write it.

        ``needed_ms`` and ``skipped`` as in ``Checkpoint``.
        """
        zero_time_ms = -1 if self._graph.zero_time_ms is None else self._graph.zero_time_ms
        try:
            collected: Checkpoint | Exception = self._collected(zero_time_ms, batches, needed_ms, skipped)
        # An input stream failed, or the SparkContext was stopped.
        except Exception as error:
            collected = error
        with self._changed:
            # An older checkpoint is still better than an error.
            if self._waiting is None or isinstance(collected, Checkpoint):
                self._waiting = collected
            self._changed.notify()

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting checkpoint and stop; return whether the writer ended within the timeout."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        return self._writer.finish(timeout_s)

    # -- collecting, on the generator's loop --

    def _collected(
        self, zero_time_ms: int, batches: UnfinishedBatches, needed_ms: int = -1, skipped: Sequence[range] = ()
    ) -> Checkpoint:
        attempts = self._run.first.attempts
        with self._changed:
            self._number += 1
            number = self._number
        return evolve(
            self._first,
            number=number,
            written_ms=self._clock.now_ms(),
            zero_time_ms=zero_time_ms,
            last_time_ms=batches.generated_ms,
            pending={time_ms: attempts(time_ms) for time_ms in batches.to_run},
            late=[LateBatches(times[0], times[-1], attempts(times[0])) for times in batches.never_begun],
            failed=sorted(batches.failed),
            skipped=[BatchRange(times[0], times[-1]) for times in skipped],
            needed_ms=needed_ms,
            states=[self._saved_state(name, stream) for name, stream in self._states.items()],
            inputs=self._saved_inputs(),
            listeners=self._saved_listener_values(),
            folders=list(self._folders),
            # Only this run: every batch that was due before it started is in ``pending`` or ``late``.
            later_attempts=1,
            logged_events=self._run.logged_events(),
        )

    def _saved_listener_values(self) -> dict[str, Any]:
        """The listeners' current values; the previous value of a listener that fails."""
        for name, value in self._listeners.items():
            try:
                # A copy, because the listener may change its value while the writer encodes it.
                self._listener_values[name] = json.loads(json.dumps(value()))
            except Exception as error:
                log.warning(
                    "listener value not readable, saving the previous one",
                    listener=name,
                    reason=summary_of(error),
                    throttle_s=600,
                )
        return {name: self._listener_values[name] for name in self._listeners if name in self._listener_values}

    def _saved_inputs(self) -> list[SavedInput]:
        rates = self._tracker.rates()
        return [
            SavedInput(name, stream.call_site.operation, stream.id, rates.get(stream.id), _position(name, stream))
            for name, stream in self._inputs.items()
        ]

    def _saved_state(self, name: str, stream: StatefulDStream) -> SavedState:
        return SavedState(
            name,
            stream.call_site.operation,
            stream.call_site.short,
            stream.num_partitions,
            function_name(stream.partition_function),
            {time_ms: self._in_directory(path) for time_ms, path in stream.checkpointed().items()},
            self._in_directory(stream.home),
        )

    def _in_directory(self, path: str) -> str:
        """A path relative to the checkpoint directory, which may be moved between two runs."""
        for folder in self._folders:
            _parent, separator, name = path.rpartition(f"/{folder}/")
            if separator:
                return f"{folder}/{name}"
        return path

    def discard_file(self, path: str) -> None:
        """Delete a checkpointed RDD as soon as no retained checkpoint mentions it."""
        with self._changed:
            self._discarded.append((self._number + 1, path))

    # -- on the writer's thread --

    def _write_all(self) -> None:
        while (taken := self._take()) is not None:
            self._write(taken)

    def _take(self) -> Checkpoint | Exception | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._stopping)
            taken, self._waiting = self._waiting, None
            return taken

    def _write(self, taken: Checkpoint | Exception) -> None:
        if isinstance(taken, Exception):
            self._failed(taken)
            return
        number = taken.number
        began = time.monotonic()
        try:
            oldest = retry(
                lambda: self._put(taken),
                Backoff(_FIRST_DELAY_MS, _LONGEST_DELAY_MS),
                retries=_RETRIES,
                retry_if=lambda error: isinstance(error, Exception) and not isinstance(error, ClaimLostError),
                on_retry=lambda error, _ms: log.info("checkpoint write retried", number=number, reason=str(error)),
            )
        # The claim itself reports its loss.
        except ClaimLostError:
            return
        except Exception as error:
            self._failed(error)
            return
        self.failures = 0
        log.debug("checkpoint written", number=number, took_ms=round((time.monotonic() - began) * 1000, 1))
        try:
            self._clean_up(oldest)
            self._forget_inputs()
        # The next write tries again.
        except Exception as error:
            log.warning("old files not cleaned up", number=number, reason=str(error))

    def _put(self, checkpoint: Checkpoint) -> Checkpoint:
        """Write a checkpoint after the disk has what it names; return the oldest retained one.

        An unsynced checkpoint may survive a power failure, too, and Spark takes a truncated RDD for a short one.
        """
        files = {path for state in checkpoint.states for path in state.files.values()}
        if not files <= self._named:
            stores = {state.store for state in checkpoint.states if state.store}
            for path in (*(files - self._named), *stores):
                self._synced[path] = self._directory.files.child(path).sync(self._synced.get(path, ()))
            self._synced = {path: self._synced[path] for path in stores}
            self._named = files
        if self._store.syncs_next and self._run.block_log is not None:
            self._run.block_log.sync()
        return self._store.write(checkpoint)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        log.error("checkpoint not written", consecutive_failures=self.failures, reason=str(error))
        if self.failures == _MAX_FAILURES:
            self._post(CheckpointFailed(self._clock.now_ms(), self.failures, summary_of(error)))

    def _clean_up(self, oldest: Checkpoint) -> None:
        """Delete files that a recovery from the oldest retained checkpoint does not need."""
        # A state with an old last checkpoint is recomputed from all input since then, and a failed batch from its own.
        points = restore_sequence(oldest, self._graph, self._states)
        if self._states:
            self.recoverable_ms = oldest.zero_time_ms if points[0].oldest_ms is None else points[0].oldest_ms
        remember_ms = self._graph.max_input_remember_ms
        needed_ms = min(oldest.needed_ms, points[-1].since_ms - remember_ms)
        retained = [range(point.since_ms - remember_ms, point.last_ms + 1) for point in points[:-1]]
        with self._changed:
            old = []
            while self._discarded and self._discarded[0][0] <= oldest.number:
                old.append(self._discarded.popleft()[1])
        for path in old:
            self._directory.delete_rdd(path)
        self._delete_old_folders()
        if self._run.completed_outputs is not None:
            self._run.completed_outputs.clean_up(min(oldest.last_time_ms, oldest.next_ms), oldest.pending)
        self._release_blocks(needed_ms, retained)

    def _delete_old_folders(self) -> None:
        """Delete the folders of earlier runs that no retained checkpoint refers to."""
        paths = [
            path
            for retained in self._store.retained
            for state in retained.states
            for path in (*state.files.values(), state.store)
        ]
        for folder in [folder for folder in self._folders if folder not in self._first.folders[-2:]]:
            if not any(path.startswith(f"{folder}/") for path in paths):
                self._directory.delete_folder(folder)
                # A new list, because the generator's loop may be reading the old one.
                self._folders = [other for other in self._folders if other != folder]

    def _forget_inputs(self) -> None:
        """Forget input streams that no retained checkpoint has, and delete their blocks."""
        retained = {saved.stream_id for checkpoint in self._store.retained for saved in checkpoint.inputs}
        gone = set(range(self._first.next_stream_id)) - self._stream_ids - retained - self._forgotten
        if gone:
            self._tracker.blocks.forget_streams(gone)
            self._forgotten |= gone
        for stream_id in sorted(gone):
            self._directory.delete_folder(f"{RECEIVED_DATA}/{stream_id}")


def _position(name: str, stream: Any) -> dict[str, Any] | None:
    position = getattr(stream, "position", None)
    try:
        return None if position is None else position()
    # Without the position, a recovered run would read the source's data twice, or not at all.
    except Exception as error:
        raise CheckpointError(f"input stream {name} does not give its position: {summary_of(error)}") from error


class FinalStateCheckpoint:
    """Checkpoints the state of a program once, when a graceful stop has run every batch. Any thread may ``abandon``.

    The next run then need not recompute the state from older checkpointed RDDs and input that may be gone. The thread
    starts with the engine, because an interpreter at exit may start no thread.
    """

    def __init__(self, sc: SparkContext, streams: Sequence[StatefulDStream]) -> None:
        self._sc = sc
        self._streams = streams
        self._group = f"penstock-final-state-{secrets.token_hex(4)}"
        # Set by a request to write or to end.
        self._requested = threading.Event()
        # Set when the thread has finished or is abandoned.
        self._over = threading.Event()
        self._is_done = False
        self._thread = EngineThread("final-state-checkpoint", self._run)

    def start(self) -> None:
        """Start the thread if there are states; ``write`` or ``abandon`` ends it."""
        if self._streams:
            self._thread.start()

    def write(self, deadline: float) -> None:
        """Checkpoint all states; return when done, abandoned, or at the deadline (monotonic seconds)."""
        if not self._streams:
            return
        self._requested.set()
        self._over.wait(deadline - time.monotonic())
        if not self._is_done:
            log.warning("states not checkpointed before the deadline", effect="the next run recomputes them")
            self.abandon()
            self._sc.cancelJobGroup(self._group)

    def abandon(self) -> None:
        """End the wait and checkpoint no further state."""
        self._over.set()
        self._requested.set()

    def _run(self) -> None:
        self._requested.wait()
        if self._over.is_set():
            return
        try:
            self._sc.setJobGroup(self._group, "final state checkpoint")
            for stream in self._streams:
                if self._over.is_set():
                    return
                try:
                    stream.checkpoint_newest()
                # The next run recovers from an older RDD and recomputes the later states.
                except Exception as error:
                    operation, reason = stream.call_site.short, failure.reason(error)
                    log.warning("state not checkpointed", operation=operation, reason=reason)
            self._is_done = True
        finally:
            self._over.set()
