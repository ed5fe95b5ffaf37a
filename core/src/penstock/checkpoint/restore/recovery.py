"""``Recovery``: what a run takes over from an earlier one before it starts.

It finds the newest checkpoint, loads the saved program, checks that program and checkpoint match, restores the streams,
and makes the run's first checkpoint. Used on the program's thread before the start.
"""

from __future__ import annotations

import platform
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import pyspark
from attrs import evolve, field, frozen
from pyspark import SparkContext

from penstock import conf
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory, require_checkpoint_directory
from penstock.checkpoint.completed_outputs import CompletedOutputs, output_names
from penstock.checkpoint.manifest import BLOCK_LOG, COMPLETED_OUTPUTS, RECEIVED_DATA, Checkpoint
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.points import RestorePoints, restore_points
from penstock.checkpoint.restore.program import load_program, save_program
from penstock.checkpoint.restore.received import block_log, check_no_blocks_needed
from penstock.checkpoint.restore.streams import restore_streams
from penstock.checkpoint.store import CheckpointStore, unreadable
from penstock.checkpoint.stream_names import assign
from penstock.errors import CheckpointError, ConfigurationError
from penstock.graph.state.keyed_state import KeyedStateDStream
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.log import get_logger
from penstock.schedule.job_generator import RecoveredBatches
from penstock.spark import saved_conf
from penstock.spark.checkpoint import qualified, unusable
from penstock.storage.directory import Directory
from penstock.storage.uri import location_of_hadoop
from penstock.version import __version__

log = get_logger("checkpoint")


class NotRecoverableError(CheckpointError):
    """The saved program has an input that cannot be recovered."""


@frozen
class BatchAttempts:
    """How many runs have begun a batch, this one included. Read on the generator's loop and on the job pool.

    The number is never too low: a batch's jobs may run before a checkpoint mentions the batch. So every batch after the
    youngest one in the checkpoint counts as begun if it was due when this run started.

    Attributes:
        known: attempts by batch time in ms, of batches that were begun and are not complete.
        after_ms: the youngest batch that the checkpoint mentions.
        until_ms: when this run started.
        later: number of runs that may have begun a batch between the two.
    """

    known: Mapping[int, int] = field(factory=dict)
    after_ms: int = -1
    until_ms: int = -1
    later: int = 1

    @classmethod
    def after(cls, found: Checkpoint, now_ms: int) -> BatchAttempts:
        """The attempts of a run that recovers from a checkpoint now."""
        known = {time_ms: count + 1 for time_ms, count in found.pending.items()}
        return cls(known, found.last_time_ms, now_ms, found.later_attempts + 1)

    def of(self, time_ms: int) -> int:
        """How many runs have begun the batch."""
        return self.known.get(time_ms, self.later if self.after_ms < time_ms <= self.until_ms else 1)


@frozen
class RecoveredRun:
    """What a run starts with.

    Attributes:
        directory: the checkpoint directory.
        first: the run's first checkpoint, not written yet.
        found: the checkpoint that it recovers from; ``None`` if it starts fresh.
        attempts: how many runs have begun a batch.
        batches: late batches and how to catch up; ``None`` if the earlier run had no batch.
        obsolete: folders of an earlier run that this one replaces, to delete when the first checkpoint is written.
        block_log: the driver write-ahead log, not recovered yet; ``None`` if it is off.
        completed_outputs: the log of completed outputs; ``None`` if it is off.
    """

    directory: CheckpointDirectory
    first: Checkpoint
    found: Checkpoint | None = None
    attempts: BatchAttempts = field(factory=BatchAttempts)
    batches: RecoveredBatches | None = None
    obsolete: Sequence[str] = ()
    block_log: WriteAheadLog | None = None
    completed_outputs: CompletedOutputs | None = None

    @property
    def rates(self) -> Mapping[int, float]:
        """The receivers' rate limits by stream id, records/s."""
        inputs = () if self.found is None else self.found.inputs
        return {saved.stream_id: saved.rate for saved in inputs if saved.rate is not None}

    def logged_events(self) -> int:
        """Number of events committed to the driver write-ahead log; 0 if it is off."""
        return 0 if self.block_log is None else self.block_log.last_number


def find_newest(directory: str) -> Checkpoint | None:
    """The newest sound checkpoint in a directory; ``None`` if there is none.

    Without a SparkContext, a path without a file system is taken for a local one: only Hadoop's configuration says
    what its default file system is.

    Raises:
        CheckpointError: there are checkpoints and none can be read.
    """
    require_checkpoint_directory(directory, "checkpointPath")
    sc = SparkContext._active_spark_context
    home = location_of_hadoop(directory if sc is None else qualified(sc, directory, "checkpointPath"))
    return _newest(CheckpointStore(Directory.of(home)), directory)


class Recovery:
    """Recovers a program from its checkpoint directory.

    Args:
        program: the program, not started.
        directory: its checkpoint directory.
    """

    def __init__(self, program: Program, directory: CheckpointDirectory) -> None:
        self._program, self.directory = program, directory
        self._graph, self._settings, self._store = program.graph, program.settings, directory.store
        #: The checkpoint to recover from; ``None`` to start fresh.
        self.found: Checkpoint | None = None

    def find(self) -> None:
        """Recover from the newest checkpoint in the directory, if there is one.

        Raises:
            CheckpointError: there are checkpoints and none can be read.
        """
        self.found = _newest(self._store, self.directory.name)

    def load_program(self, found: Checkpoint) -> None:
        """Load the saved program, and recover from this checkpoint.

        Raises:
            NotRecoverableError: it has a queue for an input.
            CheckpointError: it cannot be loaded, or cannot be recovered without its own code.
        """
        if found.program is None:
            raise CheckpointError("it contains no saved program")
        load_program(self._store.read_program(found.program), self._program)
        queues = self._not_recoverable()
        if queues:
            raise NotRecoverableError(
                f"the program of checkpoint {found.number} cannot be recovered: {', '.join(queues)}: checkpoints do "
                f"not contain queues. Set {conf.key('checkpoint_rebuild')}=true to have setupFunc rebuild the program "
                "and fill its queues, or read from a recoverable source"
            )
        streams = assign(self._graph.stateful_streams(), self._graph.streams())
        files = restore_points(found, self._graph, streams).files
        for name, stream in streams.items():
            if isinstance(stream, KeyedStateDStream) and not stream.can_begin and not files.get(name):
                raise CheckpointError(
                    f"{stream.call_site.short}: its state was not checkpointed yet, and its initial state is an RDD, "
                    "which is not saved"
                )
        self.found = found

    def prepare(self) -> RecoveredRun:
        """Check the program against the checkpoint, and restore its streams.

        Raises:
            CheckpointError: the program does not match the checkpoint.
        """
        queues = self._not_recoverable()
        if queues:
            log.warning("queueStream not recoverable", streams=queues, reason="checkpoints do not contain queues")
        rebuilds = self._settings.checkpoint_rebuild
        earlier = self._earlier(rebuilds)
        if earlier is not None:
            self._check_owner(earlier)
        if rebuilds and self.found is None:
            self.found = earlier
        found = self.found
        replaces = found is None and self._store.last_number() > 0
        program = None if rebuilds else self._save_program()
        attempts, batches, points = BatchAttempts(), None, None
        if found is not None:
            self._check(found)
            # The new run's first checkpoint may be damaged too.
            self._store.retained = [found]
            attempts = BatchAttempts.after(found, self._program.clock.now_ms())
            drops = self._settings.on_checkpoint_mismatch == "drop-state"
            points = restore_streams(self._graph, found, self.directory.folder, drops=drops)
            batches = self._batches(found, points.oldest_ms)
        elif replaces:
            self._log_replaced(earlier)
        first = self._first_checkpoint(found, earlier, program, attempts)
        return RecoveredRun(
            self.directory,
            first,
            found,
            attempts,
            batches,
            (RECEIVED_DATA, BLOCK_LOG) if replaces else (),
            self._block_log(first.run, found, points),
            self._completed_outputs(first.run),
        )

    def saved_value(self, listener: str) -> Any:
        """The value that a listener saved in the checkpoint; ``None`` if it saved none."""
        return None if self.found is None else self.found.listeners.get(listener)

    def _not_recoverable(self) -> list[str]:
        """Call sites of the inputs that lose their data with the driver."""
        return [stream.call_site.short for stream in self._graph.inputs if not stream.is_recoverable]

    # -- the checkpoint to recover from --

    def _earlier(self, rebuilds: bool) -> Checkpoint | None:
        """The checkpoint that an earlier run left, whether this run recovers from it or not."""
        if self.found is not None:
            return self.found
        try:
            return self._store.newest()
        except CheckpointError:
            # Damage does not concern a program that starts fresh.
            if rebuilds:
                raise
            return None
        except OSError as error:
            raise self.directory.unusable(error) from error

    def _check_owner(self, earlier: Checkpoint) -> None:
        name = self._program.sc.appName
        if earlier.application != name:
            raise ConfigurationError(
                f"the checkpoint directory {self.directory.name!r} belongs to the application "
                f"{earlier.application!r}, and this one is {name!r}: two applications would overwrite each other's "
                "checkpoints. Use another directory, or delete this one if that application is no longer needed"
            )

    def _check(self, found: Checkpoint) -> None:
        interval_ms = self._graph.batch_interval_ms
        if found.batch_interval_ms != interval_ms:
            raise CheckpointError(
                f"the batch interval is {interval_ms} ms, and that of the checkpoint is {found.batch_interval_ms} ms: "
                "the batch times do not match. Use the old interval, or start fresh in another directory"
            )
        seed = saved_conf.hash_seed()
        if found.states and found.hash_seed != seed:
            raise CheckpointError(
                f"PYTHONHASHSEED is {seed!r}, and was {found.hash_seed!r} when the state was saved: keys would not be "
                f"found in their partitions. Start with PYTHONHASHSEED={found.hash_seed}"
            )

    def _batches(self, found: Checkpoint, state_ms: int | None) -> RecoveredBatches | None:
        if found.zero_time_ms < 0:
            return None  # the earlier run ended before its first batch
        return RecoveredBatches(
            found.zero_time_ms,
            found.last_time_ms,
            frozenset(found.pending),
            state_ms,
        )

    def _log_replaced(self, earlier: Checkpoint | None) -> None:
        what = (
            {"checkpoints": "none is sound"}
            if earlier is None
            else {
                "last_batch": earlier.last_time_ms,
                "incomplete_batches": len(earlier.pending),
                "states": [state.name for state in earlier.states],
            }
        )
        log.warning(
            "starting fresh, earlier run discarded",
            directory=self.directory.name,
            advice=f"to recover its state and received blocks use getOrCreate or {conf.key('checkpoint_rebuild')}=true",
            **what,
        )

    # -- this run --

    def _block_log(self, run: str, found: Checkpoint | None, points: RestorePoints | None) -> WriteAheadLog | None:
        if self._settings.wal_enabled:
            return block_log(self._program, self.directory, run, found)
        if found is not None and points is not None:
            check_no_blocks_needed(self._program, self.directory, found, points)
        return None

    def _completed_outputs(self, run: str) -> CompletedOutputs | None:
        if not self._settings.skip_completed_outputs:
            return None
        files = self.directory.files.child(COMPLETED_OUTPUTS)
        wal = WriteAheadLog(files, run, self._settings, self._program.clock)
        return CompletedOutputs(wal, output_names(self._graph.outputs))

    def _save_program(self) -> str:
        data = save_program(self._program)
        try:
            return self._store.write_program(data)
        except OSError as error:
            raise self.directory.unusable(error) from error

    def _first_checkpoint(
        self, found: Checkpoint | None, earlier: Checkpoint | None, program: str | None, attempts: BatchAttempts
    ) -> Checkpoint:
        sc, own_folder = self._program.sc, self.directory.folder.name
        folders = [folder for folder in (earlier.folders if earlier is not None else ()) if folder != own_folder]
        own: dict[str, Any] = {
            "number": self._store.last_number() + 1,
            "written_ms": self._program.clock.now_ms(),
            "application": sc.appName,
            "launched_as": saved_conf.launched_as(),
            "versions": {
                "penstock": __version__,
                "pyspark": pyspark.__version__,
                "python": platform.python_version(),
            },
            "hash_seed": saved_conf.hash_seed(),
            "conf": saved_conf.conf_to_save(sc),
            "program": program,
            "folders": [*folders, own_folder],
        }
        if found is not None:
            return evolve(found, **own, pending=dict(attempts.known), later_attempts=attempts.later)
        return Checkpoint(**own, run=secrets.token_hex(8), batch_interval_ms=self._graph.batch_interval_ms)


def _newest(store: CheckpointStore, directory: str) -> Checkpoint | None:
    try:
        return store.newest()
    except NotADirectoryError as error:
        raise unusable(directory, "checkpointPath", str(error)) from error
    except OSError as error:
        raise unreadable(directory, error) from error
