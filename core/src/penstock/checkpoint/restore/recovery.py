"""``Recovery``: restores an earlier run's program, state and logs before the start, on the program's thread."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from platform import python_version
from typing import Any

import pyspark
from attrs import frozen
from pyspark import SparkContext

from penstock import conf
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory, require_checkpoint_directory
from penstock.checkpoint.checkpoint_format import BLOCK_LOG, COMPLETED_OUTPUTS, RECEIVED_DATA, Checkpoint
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.completed_outputs import CompletedOutputs, output_names
from penstock.checkpoint.program import Program, load_program, save_program
from penstock.checkpoint.restore.restore_streams import RestorePoints, restore_sequence, restore_streams
from penstock.checkpoint.stream_names import assign
from penstock.errors import CheckpointError, ConfigurationError, shown
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.boot import boot_id
from penstock.runtime.log import get_logger
from penstock.schedule.job_generator import RecoveredBatches
from penstock.schedule.recovered_state import StateRestore
from penstock.spark import saved_conf
from penstock.spark.rdd_files import qualified, unusable
from penstock.storage.directory import Directory
from penstock.storage.uri import location_of_hadoop
from penstock.track.allocations import Allocations
from penstock.version import __version__

log = get_logger("checkpoint")


class NotRecoverableError(CheckpointError):
    """An input of the saved program cannot be recovered."""


@frozen
class RecoveredRun:
    """The state with which a run starts: its ``first`` checkpoint, and what it recovers.

    ``batches`` are to be generated again, and ``obsolete`` are folders of a replaced earlier run, to delete when the
    first checkpoint is written. ``block_log`` is the driver write-ahead log, not recovered yet; ``None`` if it is off.
    """

    directory: CheckpointDirectory
    first: Checkpoint
    batches: RecoveredBatches | None = None
    obsolete: Sequence[str] = ()
    block_log: WriteAheadLog | None = None
    completed_outputs: CompletedOutputs | None = None

    def logged_events(self) -> int:
        """Number of events committed to the driver write-ahead log; 0 if it is off."""
        return 0 if self.block_log is None else self.block_log.last_number


def find_newest(directory: str) -> Checkpoint | None:
    """The newest sound checkpoint in a directory; ``None`` if there is none.

    Without a SparkContext, a path without a file system is local: only Hadoop's configuration names the default one.
    """
    require_checkpoint_directory(directory, "checkpointPath")
    sc = SparkContext._active_spark_context
    home = location_of_hadoop(directory if sc is None else qualified(sc, directory, "checkpointPath"))
    return _newest(CheckpointStore(Directory.of(home)), directory)


class Recovery:
    """Recovers a program from its checkpoint directory, before the program starts."""

    def __init__(self, program: Program, directory: CheckpointDirectory) -> None:
        self._program = program
        self.directory = directory
        self._graph = program.graph
        self._settings = program.settings
        #: The checkpoint to recover from; ``None`` to start fresh.
        self.checkpoint: Checkpoint | None = None
        self._runs_saved_program = False

    def find(self) -> None:
        """Select the newest undamaged checkpoint to recover from, if there is one.

        Raises ``CheckpointError`` if all checkpoints are damaged.
        """
        self.checkpoint = _newest(self.directory.store, self.directory.name)

    def load_program(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint's saved program and select that checkpoint for recovery."""
        if checkpoint.program is None:
            raise CheckpointError("it contains no saved program")
        load_program(self.directory.store.read_program(checkpoint.program), self._program)
        if queues := self._not_recoverable():
            raise NotRecoverableError(
                f"checkpoint {checkpoint.number} cannot be recovered, because its program reads from queues, which "
                f"checkpoints do not contain: {', '.join(queues)}. Set {conf.key('checkpoint_rebuild')}=true to have "
                "setupFunc rebuild the program and fill its queues, or read from a recoverable source"
            )
        streams = assign(self._graph.stateful_streams(), self._graph.streams())
        files = restore_sequence(checkpoint, self._graph, streams)[0].files
        for name, stream in streams.items():
            if not stream.can_begin and not files.get(name):
                raise CheckpointError(
                    f"{stream.call_site.short}: its state was not checkpointed yet, and its initial state is an RDD, "
                    "which is not saved"
                )
        self.checkpoint = checkpoint
        self._runs_saved_program = True

    def prepare(self) -> RecoveredRun:
        """Take the directory over and restore the program's streams.

        Raises ``CheckpointError`` if program and checkpoint do not match.
        """
        if queues := self._not_recoverable():
            log.warning("queueStream not recoverable", streams=queues, reason="checkpoints do not contain queues")
        rebuilds = self._settings.checkpoint_rebuild
        earlier = self._earlier(rebuilds)
        self._check_owner(earlier)
        # A program that cannot recover takes the directory from nobody.
        if earlier is not None and (rebuilds or self.checkpoint is not None):
            self._check(earlier)
        self.directory.take_claim()
        # Again, because the earlier owner may have written meanwhile.
        earlier = self._newest_of_owner(rebuilds)
        if rebuilds and self.checkpoint is None:
            self.checkpoint = earlier
        checkpoint = self.checkpoint
        replaces = checkpoint is None and self.directory.store.last_number() > 0
        program = None if rebuilds else self._save_program()
        batches = None
        if checkpoint is not None:
            self._check(checkpoint)
            # Retain the checkpoint to recover from, because the new run's first checkpoint may get damaged.
            self.directory.store.retained = [checkpoint]
            drops = self._settings.on_checkpoint_mismatch == "drop-state"
            points = restore_streams(self._graph, checkpoint, self.directory.folder, drops=drops)
            if not self._settings.wal_enabled:
                check_no_blocks_needed(self._program, self.directory, checkpoint, points[0])
            # Otherwise the earlier run ended before its first batch.
            if checkpoint.zero_time_ms >= 0:
                batches = RecoveredBatches(
                    checkpoint.zero_time_ms,
                    checkpoint.last_time_ms,
                    frozenset(checkpoint.pending),
                    points[0].oldest_ms,
                    [batches.times(checkpoint.batch_interval_ms) for batches in checkpoint.late],
                    [
                        StateRestore(point.oldest_ms, partial(self._restore_states, point))
                        for point in points[1:]
                        if point.oldest_ms is not None
                    ],
                    [batches.times(checkpoint.batch_interval_ms) for batches in checkpoint.skipped],
                )
        elif replaces:
            self._log_replaced(earlier)
        first = self._first_checkpoint(earlier, program)
        return RecoveredRun(
            self.directory,
            first,
            batches,
            (RECEIVED_DATA, BLOCK_LOG) if replaces else (),
            block_log(self._program, self.directory, first.run, checkpoint) if self._settings.wal_enabled else None,
            self._completed_outputs(first.run),
        )

    def _restore_states(self, points: RestorePoints) -> None:
        streams = assign(self._graph.stateful_streams(), self._graph.streams())
        for name, files in points.files.items():
            streams[name].restore(files)

    def saved_value(self, listener: str) -> Any:
        """The value that a listener saved in the checkpoint, or ``None``."""
        return None if self.checkpoint is None else self.checkpoint.listeners.get(listener)

    def _not_recoverable(self) -> list[str]:
        """Call sites of the inputs that lose their data with the driver."""
        return [stream.call_site.short for stream in self._graph.inputs if not stream.is_recoverable]

    # -- the checkpoint to recover from --

    def _earlier(self, rebuilds: bool) -> Checkpoint | None:
        """The newest checkpoint in the directory, even if this run does not recover from it."""
        if self.checkpoint is not None:
            return self.checkpoint
        try:
            with self.directory.errors():
                return self.directory.store.newest()
        except CheckpointError:
            # Damage does not concern a program that starts fresh.
            if rebuilds:
                raise
            return None

    def _newest_of_owner(self, rebuilds: bool) -> Checkpoint | None:
        """The newest checkpoint once the directory is this driver's; also the one to recover from, if any was found."""
        found, self.checkpoint = self.checkpoint, None
        newest = self._earlier(rebuilds or found is not None) or found
        if found is not None:
            if newest is not None and self._runs_saved_program and newest.program != found.program:
                raise CheckpointError(
                    f"another driver has started in the checkpoint directory {self.directory.name!r} with another "
                    "program since getOrCreate read it: start again to recover that program"
                )
            self.checkpoint = newest
        return newest

    def _check_owner(self, earlier: Checkpoint | None) -> None:
        if earlier is None:
            self.directory.store.refuse_checkpoints_of_spark()
            return
        name = self._program.sc.appName
        if earlier.application != name:
            owner, location = shown(earlier.application), repr(self.directory.name)
            raise ConfigurationError(
                f"the checkpoint directory {location} belongs to application {owner}, but this application is "
                f"{shown(name)}. Use another directory, or delete {location} if {owner} is no longer needed"
            )

    def _check(self, checkpoint: Checkpoint) -> None:
        interval_ms = self._graph.batch_interval_ms
        if checkpoint.batch_interval_ms != interval_ms:
            raise CheckpointError(
                f"the batch interval is {interval_ms} ms, and that of the checkpoint is "
                f"{checkpoint.batch_interval_ms} ms: the batch times do not match. Use the old interval, or start "
                "fresh in another directory"
            )
        seed = saved_conf.hash_seed()
        if checkpoint.states and checkpoint.hash_seed != seed:
            raise CheckpointError(
                f"PYTHONHASHSEED is {seed!r}, and was {checkpoint.hash_seed!r} when the state was saved: keys would "
                f"not be found in their partitions. Start with PYTHONHASHSEED={checkpoint.hash_seed}"
            )

    def _log_replaced(self, earlier: Checkpoint | None) -> None:
        replaced: dict[str, Any] = {"checkpoints": "none is sound"}
        if earlier is not None:
            states = [state.name for state in earlier.states]
            pending = len(earlier.pending) + sum(len(late.times(earlier.batch_interval_ms)) for late in earlier.late)
            replaced = {"last_batch": earlier.last_time_ms, "incomplete_batches": pending, "states": states}
        log.warning(
            "starting fresh, earlier run discarded",
            directory=self.directory.name,
            advice=f"to recover its state and received blocks use getOrCreate or {conf.key('checkpoint_rebuild')}=true",
            **replaced,
        )

    # -- this run --

    def _completed_outputs(self, run: str) -> CompletedOutputs | None:
        if not self._settings.skip_completed_outputs:
            return None
        files = self.directory.files.child(COMPLETED_OUTPUTS)
        wal = WriteAheadLog(files, run, self._settings, self._program.clock, rebooted=_has_rebooted(self.checkpoint))
        return CompletedOutputs(wal, output_names(self._graph.outputs))

    def _save_program(self) -> str:
        with self.directory.errors():
            return self.directory.store.write_program(save_program(self._program))

    def _first_checkpoint(self, earlier: Checkpoint | None, program: str | None) -> Checkpoint:
        sc, name = self._program.sc, self.directory.folder.name
        folders = [folder for folder in (earlier.folders if earlier is not None else ()) if not folder.startswith(name)]
        own: dict[str, Any] = {
            "number": self.directory.store.last_number() + 1,
            "written_ms": self._program.clock.now_ms(),
            "application": sc.appName,
            "launched_as": saved_conf.launched_as(),
            "versions": {"penstock": __version__, "pyspark": pyspark.__version__, "python": python_version()},
            "hash_seed": saved_conf.hash_seed(),
            "conf": saved_conf.conf_to_save(sc),
            "program": program,
            "folders": [*folders, f"{name}-state", name],
            "boot": boot_id(),
            "claim": self.directory.files.claim_number,
        }
        if self.checkpoint is not None:
            return self.checkpoint.recovered(**own)
        return Checkpoint(**own, run=secrets.token_hex(8), batch_interval_ms=self._graph.batch_interval_ms)


def _newest(store: CheckpointStore, directory: str) -> Checkpoint | None:
    try:
        newest = store.newest()
        if newest is None:
            store.refuse_checkpoints_of_spark()
        return newest
    except NotADirectoryError as error:
        raise unusable(directory, "checkpointPath", str(error)) from error
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint directory {directory!r} cannot be read: {error}. Give this program access to it, or name "
            "another directory"
        ) from error


def block_log(
    program: Program, directory: CheckpointDirectory, run: str, checkpoint: Checkpoint | None
) -> WriteAheadLog:
    """The driver write-ahead log of a run, before its recovery; ``checkpoint`` is the one to recover from, if any."""
    files = directory.files.child(BLOCK_LOG)
    logged, substitute = (0, None) if checkpoint is None else (checkpoint.logged_events, checkpoint.lost_allocations())
    rebooted = _has_rebooted(checkpoint)
    return WriteAheadLog(files, run, program.settings, program.clock, logged, substitute, rebooted=rebooted)


def _has_rebooted(checkpoint: Checkpoint | None) -> bool:
    """Whether the run that wrote a checkpoint may have ended with its host: that has restarted, or is another one."""
    return checkpoint is not None and checkpoint.boot not in ("", boot_id())


def check_no_blocks_needed(
    program: Program, directory: CheckpointDirectory, checkpoint: Checkpoint, points: RestorePoints
) -> None:
    """Refuse a run with the write-ahead log off that needs blocks which an earlier run received with it on."""
    allocations = Allocations()
    block_log(program, directory, checkpoint.run, checkpoint).recover(allocations)
    required_ms = points.oldest_required_ms
    needed = 0
    # No batch requests data of streams without an output.
    for stream in (stream for stream in program.graph.inputs if stream.number in required_ms):
        blocks = allocations.unallocated(stream.id)
        for time_ms in allocations.times:
            if time_ms >= required_ms[stream.number]:
                blocks += allocations.blocks(time_ms, stream.id)
        needed += sum(block.num_records for block in blocks)
    if not needed:
        return
    location = directory.files.location(BLOCK_LOG)
    if program.settings.on_damage != "skip":
        raise ConfigurationError(
            f"recovery needs {needed} records for incomplete batches, windows or state from the write-ahead log in "
            f"{location}, but {conf.key('wal_enabled')} is false. Set it to true, recover and stop gracefully before "
            f"disabling it. To lose these records, set {conf.key('on_damage')}=skip"
        )
    log.error("write-ahead log off, earlier records lost", records=needed, location=location)
