"""``Checkpointer``: what a run writes so that a later one can go on.

Owns the gathering, on the generator's loop, of what changes from batch to batch; the files that no checkpoint mentions
any more, and their deletion on the writer's thread. Never writes on the loop.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from penstock.checkpoint.batch_attempts import Attempts
from penstock.checkpoint.completed_outputs import CompletedOutputs
from penstock.checkpoint.manifest import Checkpoint, SavedInput, SavedTable
from penstock.checkpoint.restore_points import starting_points
from penstock.checkpoint.restore_streams import function_name
from penstock.checkpoint.store import CheckpointStore
from penstock.checkpoint.stream_names import named
from penstock.checkpoint.writer import CheckpointWriter
from penstock.errors import CheckpointError, text_of
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.state.stateful import StatefulDStream
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger

log = get_logger("checkpoint")


@frozen
class CheckpointReport:
    """How the writing of checkpoints goes.

    Attributes:
        written_ms: when the last one was gathered that was written, ms; ``None`` before the first.
        failures: that could not be written since, in a row.
    """

    written_ms: int | None = None
    failures: int = 0


class Checkpointer:
    """Write the checkpoints of a run.

    Args:
        first: what does not change, and the number from which this run's are counted.
        graph: whose.
        store: of the checkpoints.
        clock: of the engine.
        rates: the rates of receivers, by stream id.
        listeners: what listeners keep, by name.
        attempts: how many runs have begun a batch.
        keeps_blocks: what was received outlives the run.
        journaled: how many events of blocks and batches are committed.
        outputs: which are done; told which batches no run will make again.
        delete_file: deletes a checkpointed RDD.
        delete_folder: deletes a folder of the checkpoint directory, by name.
        forget_streams: is told the numbers of inputs that no run will have again.
        max_failures: after so many checkpoints in a row that could not be written ``on_failures`` is told.
        on_failures: is told how many, and why the last could not.
    """

    def __init__(
        self,
        first: Checkpoint,
        graph: DStreamGraph,
        store: CheckpointStore,
        clock: Clock,
        *,
        rates: Callable[[], Mapping[int, float]],
        listeners: Mapping[str, Callable[[], Any]],
        attempts: Attempts,
        keeps_blocks: bool,
        journaled: Callable[[], int],
        outputs: CompletedOutputs | None,
        delete_file: Callable[[str], object],
        delete_folder: Callable[[str], object],
        forget_streams: Callable[[set[int]], object],
        max_failures: int,
        on_failures: Callable[[int, BaseException], object],
    ) -> None:
        self._stream_ids = {stream.id for stream in graph.inputs}
        self._first = evolve(first, next_stream_id=max([first.next_stream_id, *(id + 1 for id in self._stream_ids)]))
        self._graph, self._store, self._clock = graph, store, clock
        self._rates, self._listeners, self._attempts = rates, listeners, attempts
        self._delete_file, self._delete_folder, self._forget_streams = delete_file, delete_folder, forget_streams
        self._max_failures, self._on_too_many = max_failures, on_failures
        self.keeps_blocks, self._journaled, self._outputs = keeps_blocks, journaled, outputs
        self.on_cleanable: Callable[[int], object] = lambda _before_ms: None
        #: The oldest batch time from which a later run recovers state; ``None`` while nothing was saved.
        self.recoverable_ms: int | None = None
        self._number = first.number
        self._kept = dict(first.listeners)
        self._forgotten: set[int] = set()
        # Listeners of which the log has been told.
        self._told: set[str] = set()
        self._folders = list(first.folders)
        self._tables = named(graph.stateful_streams(), graph.streams())
        self._inputs = named(graph.inputs, [*graph.inputs, *graph.streams()])
        # Files that no stream needs, with the number of the first checkpoint that does not mention them.
        self._discarded: deque[tuple[int, str]] = deque()
        self._lock = threading.Lock()
        self._writer = CheckpointWriter(store, clock, self._on_saved, self._on_failures)

    def start(self) -> None:
        """Write the first, so that a run that dies at once is known of; then begin to write on the writer's thread.

        Raises:
            OSError: it cannot be written.
            CheckpointError: it cannot be made: a source does not say where it is.
            WriteAheadLogError: the journal of outputs cannot be written.
        """
        # With where sources are: for a run that goes on, what comes meanwhile is new.
        oldest = self._store.write(evolve(self._first, inputs=self._saved_inputs(), journaled=self._journaled()))
        # What is of another run may go now: this one is known of.
        if self._outputs is not None:
            self._outputs.start()
        self._clean_up(oldest)
        self._writer.start()

    def begin(self, zero_time_ms: int) -> None:
        """Write that there are batches from now on, before the first is made: on the program's thread.

        Raises:
            OSError: it cannot be written.
            CheckpointError: it cannot be made.
        """
        self._store.write(self._gathered(zero_time_ms, zero_time_ms, (), -1))

    def save(self, last_time_ms: int, pending: Sequence[int], needed_ms: int) -> None:
        """Have a checkpoint written soon. One that cannot be made counts as one that could not be written."""
        zero_time_ms = -1 if self._graph.zero_time_ms is None else self._graph.zero_time_ms
        try:
            self._writer.write(self._gathered(zero_time_ms, last_time_ms, pending, needed_ms))
        # Of an input, or of a Spark that is gone.
        except Exception as error:
            self._writer.fail(error)

    def _gathered(self, zero_time_ms: int, last_time_ms: int, pending: Sequence[int], needed_ms: int) -> Checkpoint:
        with self._lock:
            self._number += 1
            number = self._number
        return evolve(
            self._first,
            number=number,
            written_ms=self._clock.now_ms(),
            zero_time_ms=zero_time_ms,
            last_time_ms=last_time_ms,
            pending={time_ms: self._attempts.of(time_ms) for time_ms in pending},
            needed_ms=needed_ms,
            tables=[self._saved_table(name, table) for name, table in self._tables.items()],
            inputs=self._saved_inputs(),
            listeners=self._kept_by_listeners(),
            folders=list(self._folders),
            # By this run alone: all that was due before is known.
            begun=1,
            journaled=self._journaled(),
        )

    def stop(self, timeout_s: float) -> bool:
        """Write what waits, and end; say whether that was done in time."""
        return self._writer.stop(timeout_s)

    @property
    def written_ms(self) -> int | None:
        """When the last checkpoint that was written was gathered, ms."""
        return self._writer.written_ms

    @property
    def failures(self) -> int:
        """Checkpoints in a row that could not be written."""
        return self._writer.failures

    def _kept_by_listeners(self) -> dict[str, Any]:
        """What each keeps now; of one that fails, what it kept last."""
        for name, keep in self._listeners.items():
            try:
                # A copy: the listener goes on while it is written.
                self._kept[name] = json.loads(json.dumps(keep()))
                self._told.discard(name)
            except Exception as error:
                if name not in self._told:
                    log.warning(
                        "a listener's value is kept as it was: it gives none that is JSON",
                        listener=name,
                        reason=f"{type(error).__name__}: {text_of(error)}",
                    )
                self._told.add(name)
        return {name: self._kept[name] for name in self._listeners if name in self._kept}

    def discard_file(self, path: str) -> None:
        """Delete a checkpointed RDD once no kept checkpoint mentions it."""
        with self._lock:
            self._discarded.append((self._number + 1, path))

    def _saved_inputs(self) -> list[SavedInput]:
        rates = self._rates()
        return [
            SavedInput(name, stream.call_site.operation, stream.id, rates.get(stream.id), _position(name, stream))
            for name, stream in self._inputs.items()
        ]

    def _saved_table(self, name: str, table: StatefulDStream) -> SavedTable:
        return SavedTable(
            name,
            table.call_site.operation,
            table.call_site.short,
            table.num_partitions,
            function_name(table.partition_function),
            {time_ms: self._in_directory(path) for time_ms, path in table.checkpointed().items()},
            self._in_directory(table.home),
        )

    def _in_directory(self, path: str) -> str:
        """A path without what is before the folder of the run that made it: directories may be moved."""
        for folder in self._folders:
            _before, found, name = path.rpartition(f"/{folder}/")
            if found:
                return f"{folder}/{name}"
        return path

    # -- on the writer's thread --

    def _on_saved(self, oldest: Checkpoint) -> None:
        self._clean_up(oldest)
        self._forget_inputs()

    def _clean_up(self, oldest: Checkpoint) -> None:
        needed_ms = oldest.needed_ms
        if self._tables:
            saved = {self._tables[each.name].number: each for each in oldest.tables if each.name in self._tables}
            since_ms = starting_points(oldest, self._graph, saved).oldest_ms
            self.recoverable_ms = oldest.zero_time_ms if since_ms is None else since_ms
            # A state that was not checkpointed for long is made again from all that came since.
            needed_ms = min(needed_ms, self.recoverable_ms - self._graph.max_input_remember_ms)
        with self._lock:
            old = []
            while self._discarded and self._discarded[0][0] <= oldest.number:
                old.append(self._discarded.popleft()[1])
        for path in old:
            self._delete_file(path)
        self._sweep()
        if self._outputs is not None:
            self._outputs.clean_up(min(oldest.pending, default=oldest.last_time_ms))
        self.on_cleanable(needed_ms)

    def _sweep(self) -> None:
        """Delete the folders of earlier runs that no checkpoint leads to any more."""
        mine = self._first.folders[-1:]
        paths = [
            path for kept in self._store.kept for table in kept.tables for path in (*table.files.values(), table.home)
        ]
        for folder in [folder for folder in self._folders if folder not in mine]:
            if not any(path.startswith(f"{folder}/") for path in paths):
                self._delete_folder(folder)
                # Another list: the generator's loop may be reading this one.
                self._folders = [each for each in self._folders if each != folder]

    def _forget_inputs(self) -> None:
        """Forget inputs that no checkpoint has any more, and delete what they received."""
        kept = {saved.stream_id for checkpoint in self._store.kept for saved in checkpoint.inputs}
        gone = set(range(self._first.next_stream_id)) - self._stream_ids - kept - self._forgotten
        if gone:
            self._forget_streams(gone)
            self._forgotten |= gone
        for stream_id in sorted(gone):
            self._delete_folder(f"receivedData/{stream_id}")

    def _on_failures(self, count: int, error: BaseException) -> None:
        log.error("checkpoint not written", in_a_row=count, reason=str(error))
        if count == self._max_failures:
            self._on_too_many(count, error)


def _position(name: str, stream: Any) -> dict[str, Any] | None:
    said = getattr(stream, "position", None)
    try:
        return None if said is None else said()
    # Without it what the stream has read would be read again, or never.
    except Exception as error:
        raise CheckpointError(
            f"the position of input stream {name} cannot be had: {type(error).__name__}: {text_of(error)}"
        ) from error
