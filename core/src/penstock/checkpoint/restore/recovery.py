"""``Recovery``: what a context does about checkpoints, from its start to its end.

Owns the checkpoint that a context goes on from, what is checked before it does, and what of it goes where. Called on
the program's thread before the start, and on the thread that stops the engine.
"""

from __future__ import annotations

import platform
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyspark
from attrs import evolve
from pyspark import SparkContext

from penstock import conf
from penstock.checkpoint import saved_program
from penstock.checkpoint.batch_attempts import Attempts
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.completed_outputs import CompletedOutputs, output_names
from penstock.checkpoint.manifest import Checkpoint, SavedFile
from penstock.checkpoint.restore_points import StartingPoints, starting_points
from penstock.checkpoint.restore_streams import reattach
from penstock.checkpoint.store import CheckpointStore
from penstock.checkpoint.stream_names import named
from penstock.errors import CheckpointError, ConfigurationError
from penstock.graph.state import StateDStream
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.log import get_logger
from penstock.schedule.resume import Resume
from penstock.spark import saved_conf
from penstock.spark.checkpoint import RunFolder, delete_empty_folders, delete_file, qualified
from penstock.storage.directory import Directory, Durability
from penstock.track import block_events
from penstock.track.block_ledger import BlockLedger

if TYPE_CHECKING:
    from penstock.context import StreamingContext

log = get_logger("checkpoint")

# In the checkpoint directory: what receivers stored, and which batch has which of it.
_BLOCKS, _BLOCK_JOURNAL = "receivedData", "receivedBlockMetadata"


class Recovery:
    """The checkpoints of a context.

    Args:
        context: whose.
        directory: of the checkpoints, as the program names it.
        folder: in it, where Spark writes the RDDs of this run.
    """

    def __init__(self, context: StreamingContext, directory: str, folder: RunFolder) -> None:
        self._context, self._folder = context, folder
        self.directory = directory
        # Where Spark has it: a path that names no file system is one of Hadoop's default.
        self._home = Directory.of(folder.path)
        self._store = CheckpointStore(self._home, Durability(context.settings[conf.DURABILITY]))
        #: To go on from; ``None`` to start afresh.
        self.found: Checkpoint | None = None
        self._attempts = Attempts()
        self._resume: Resume | None = None
        # A run that this one does not go on from has left something here.
        self._replaces = False
        # Of what receivers store.
        self._journal: WriteAheadLog | None = None

    @staticmethod
    def newest(directory: str) -> Checkpoint | None:
        """The checkpoint to go on from in a directory; ``None`` when there is none.

        Without a SparkContext nobody knows Hadoop's default file system: it is taken for this host's then.

        Raises:
            CheckpointError: there are some, and none can be read.
        """
        sc = SparkContext._active_spark_context
        return _newest(CheckpointStore(Directory.of(directory if sc is None else qualified(sc, directory))), directory)

    def find(self) -> None:
        """Go on from the newest checkpoint that is in the directory, if there is one.

        Raises:
            CheckpointError: there are some, and none can be read.
        """
        self.found = _newest(self._store, self.directory)

    def load_program(self, found: Checkpoint) -> None:
        """Give the context the streams that were saved, and go on from where they were.

        Raises:
            CheckpointError: they cannot be loaded, or cannot go on without the program's own code.
        """
        if found.program is None:
            raise CheckpointError("the program's functions were not saved")
        saved_program.load(self._store.read_program(found.program), self._context)
        files = self._starting_points(found).files
        graph = self._context.graph
        for name, table in named(graph.tables(), graph.streams()).items():
            if isinstance(table, StateDStream) and not table.can_begin and not files.get(name):
                raise CheckpointError(
                    f"{table.call_site.short}: no state was checkpointed yet, and its initial states were in an RDD"
                )
        self.found = found

    # -- at the start --

    def prepare(self) -> None:
        """Check that the program may write checkpoints; have its streams go on from the one there is.

        Raises:
            ConfigurationError: it may not: a function that cannot be pickled, a queue as its source, a directory that
                cannot be written or that is another application's.
            CheckpointError: it does not fit the checkpoint.
        """
        context, settings = self._context, self._context.settings
        rebuilds = settings[conf.CHECKPOINT_REBUILD]
        self._check_sources()
        before = self._before(rebuilds)
        if before is not None:
            self._check_owner(before)
        if rebuilds and self.found is None:
            self.found = before
        found = self.found
        self._replaces = found is None and self._store.last_number() > 0
        program = None if rebuilds else self._write_program()
        if found is not None:
            self._check(found)
            # The first of this run may be damaged, too.
            self._store.keep(found)
            self._attempts = Attempts.behind(found, context.clock.now_ms())
            drops = settings[conf.CHECKPOINT_MISMATCH] == "drop-state"
            self._resume = _resume_of(found, reattach(context.graph, found, self._folder, drops=drops), settings)
        elif self._replaces:
            self._tell_replaced(before)
        self._first = self._first_checkpoint(found, before, program)

    @property
    def resume(self) -> Resume | None:
        """Where the generator begins; ``None`` afresh."""
        return self._resume

    @property
    def run(self) -> str:
        """The name that a run shares with those that go on from it."""
        return self._first.run

    def attempts(self, time_ms: int) -> int:
        """How many runs have begun a batch, this one among them."""
        return self._attempts.of(time_ms)

    @property
    def rates(self) -> Mapping[int, float]:
        """The rates that receivers had, by stream id."""
        inputs = () if self.found is None else self.found.inputs
        return {saved.stream_id: saved.rate for saved in inputs if saved.rate is not None}

    def kept(self, listener: str) -> Any:
        """What a listener kept in the checkpoint; ``None`` for nothing."""
        return None if self.found is None else self.found.listeners.get(listener)

    def journal(self) -> WriteAheadLog | None:
        """Of the blocks that receivers store, where these outlive the run; ``None`` where they do not.

        Raises:
            ConfigurationError: they do not, and did in the run before, of which some are needed.
            WriteAheadLogError: nobody knows, for its journal cannot be read.
        """
        settings, found = self._context.settings, self.found
        made = WriteAheadLog(
            self._home.child(_BLOCK_JOURNAL),
            self.run,
            settings,
            self._context.clock,
            0 if found is None else found.journaled,
            None if found is None else _allocations(found),
        )
        if settings[conf.WRITE_AHEAD_LOG]:
            self._journal = made
            return made
        if found is not None:
            self._check_received(found, made)
        return None

    def completed_outputs(self) -> CompletedOutputs | None:
        """Which outputs are done; ``None`` when that is not written down."""
        settings = self._context.settings
        if not settings[conf.SKIP_COMPLETED]:
            return None
        journal = WriteAheadLog(self._home.child("completedOutputs"), self.run, settings, self._context.clock)
        return CompletedOutputs(journal, output_names(self._context.graph.outputs))

    def checkpointer(
        self,
        rates: Callable[[], Mapping[int, float]],
        listeners: Mapping[str, Callable[[], Any]],
        on_failures: Callable[[int, BaseException], object],
        forget_streams: Callable[[set[int]], object],
        *,
        keeps_blocks: bool,
        outputs: CompletedOutputs | None,
    ) -> Checkpointer:
        """What writes this run's checkpoints; the first is written now.

        Raises:
            ConfigurationError: it cannot be written.
        """
        context = self._context
        sc = context.sparkContext
        made = Checkpointer(
            self._first,
            context.graph,
            self._store,
            context.clock,
            rates=rates,
            listeners=listeners,
            attempts=self._attempts,
            keeps_blocks=keeps_blocks,
            journaled=self._journaled,
            outputs=outputs,
            delete_file=partial(delete_file, sc),
            delete_folder=self._delete_folder,
            forget_streams=forget_streams,
            max_failures=context.settings[conf.CHECKPOINT_MAX_FAILURES],
            on_failures=on_failures,
        )
        try:
            made.start()
        except OSError as error:
            raise self._cannot_write(error) from error
        # From now on the directory is this run's.
        delete_empty_folders(sc, self._folder)
        if self._replaces:
            for name in (_BLOCKS, _BLOCK_JOURNAL):
                self._delete_folder(name)
        return made

    # -- inside --

    def _journaled(self) -> int:
        return 0 if self._journal is None else self._journal.last_number

    def _delete_folder(self, name: str) -> None:
        delete_file(self._context.sparkContext, f"{self._folder.uri}/{name}")

    def _tell_replaced(self, before: Checkpoint | None) -> None:
        """Say what a fresh start puts an end to."""
        what = (
            {"checkpoints": "none is sound"}
            if before is None
            else {
                "last_batch": before.last_time_ms,
                "batches_not_complete": len(before.pending),
                "states": [table.name for table in before.tables],
            }
        )
        log.warning(
            "an earlier run's checkpoints, states and received blocks are replaced: this program starts afresh",
            directory=self.directory,
            advice=f"to go on from there, use getOrCreate or {conf.CHECKPOINT_REBUILD.name}=true",
            **what,
        )

    def _before(self, rebuilds: bool) -> Checkpoint | None:
        """What an earlier run left here."""
        if self.found is not None:
            return self.found
        try:
            return self._store.newest()
        except CheckpointError:
            # Of no use to a program that starts afresh.
            if rebuilds:
                raise
            return None
        except OSError as error:
            raise self._cannot_write(error) from error

    def _check_sources(self) -> None:
        if self._context.settings[conf.TEST_SOURCES]:
            return
        for stream in self._context.graph.inputs:
            if not stream.is_recoverable:
                raise ConfigurationError(
                    f"{stream.call_site.short}: what is in a queue cannot be recovered, and the program writes "
                    f"checkpoints. For a test, set {conf.TEST_SOURCES.name}=true; else read from a source that lasts"
                )

    def _check_owner(self, before: Checkpoint) -> None:
        name = self._context.sparkContext.appName
        if before.application != name:
            raise ConfigurationError(
                f"the checkpoint directory {self.directory!r} belongs to the application {before.application!r}, and "
                f"this one is {name!r}: two applications in one directory would ruin each other's checkpoints. Name "
                "another directory, or delete this one if that application is no more"
            )

    def _check(self, found: Checkpoint) -> None:
        interval_ms = self._context.graph.batch_interval_ms
        if found.batch_interval_ms != interval_ms:
            raise CheckpointError(
                f"the batch interval is {interval_ms} ms, and that of the checkpoint {found.batch_interval_ms} ms: "
                "batch times would not fit. Go on with the old one, or start afresh in another directory"
            )
        seed = saved_conf.hash_seed()
        if found.tables and found.hash_seed != seed:
            raise CheckpointError(
                f"PYTHONHASHSEED is {seed!r}, and was {found.hash_seed!r} when the state was written: keys would be "
                f"looked for where they are not. Start with PYTHONHASHSEED={found.hash_seed}"
            )

    def _check_received(self, found: Checkpoint, journal: WriteAheadLog) -> None:
        """The block log is off: nothing of what an earlier run received with it may be needed."""
        ledger = BlockLedger()
        journal.recover(ledger)
        asked_ms = self._starting_points(found).asked_ms
        needed = 0
        # One that no output is made of is asked for nothing.
        for stream in (each for each in self._context.graph.inputs if each.number in asked_ms):
            times = [time_ms for time_ms in ledger.times if time_ms >= asked_ms[stream.number]]
            blocks = [
                *ledger.unallocated(stream.id),
                *(each for time in times for each in ledger.blocks(time, stream.id)),
            ]
            needed += sum(block.num_records for block in blocks)
        if not needed:
            return
        place = self._home.location(_BLOCK_JOURNAL)
        if self._context.settings[conf.ON_DAMAGE] != "skip":
            raise ConfigurationError(
                f"{conf.WRITE_AHEAD_LOG.name} is off, and {needed} records that were received with it on are needed: "
                f"batches that are not complete, windows or states are made of them (journal: {place}). Go on with it "
                f"on, and stop gracefully before it is switched off, or go on without them: {conf.ON_DAMAGE.name}=skip"
            )
        log.error(
            "the block log is off: records that were received with it on are left out", records=needed, journal=place
        )

    def _starting_points(self, found: Checkpoint) -> StartingPoints:
        graph = self._context.graph
        tables = named(graph.tables(), graph.streams())
        saved = {tables[each.name].number: each for each in found.tables if each.name in tables}
        return starting_points(found, graph, saved)

    def _write_program(self) -> SavedFile:
        data = saved_program.save(self._context)
        try:
            return self._store.write_program(data)
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"the checkpoint directory {self.directory!r} cannot be used: {error}; name one that this program may "
            "read and write"
        )

    def _first_checkpoint(
        self, found: Checkpoint | None, before: Checkpoint | None, program: SavedFile | None
    ) -> Checkpoint:
        context = self._context
        sc = context.sparkContext
        folders = [folder for folder in (before.folders if before is not None else ()) if folder != self._folder.name]
        own: dict[str, Any] = {
            "number": self._store.last_number() + 1,
            "written_ms": context.clock.now_ms(),
            "application": sc.appName,
            "launched_as": saved_conf.launched_as(),
            "versions": {
                "penstock": version("penstock"),
                "pyspark": pyspark.__version__,
                "python": platform.python_version(),
            },
            "hash_seed": saved_conf.hash_seed(),
            "conf": saved_conf.conf_to_save(sc),
            "program": program,
            "folders": [*folders, self._folder.name],
        }
        if found is not None:
            return evolve(found, **own, pending=dict(self._attempts.known), begun=self._attempts.begun)
        interval_ms = context.graph.batch_interval_ms
        return Checkpoint(
            **own, run=secrets.token_hex(8), batch_interval_ms=interval_ms, zero_time_ms=-1, last_time_ms=-1
        )


def _newest(store: CheckpointStore, directory: str) -> Checkpoint | None:
    try:
        return store.newest()
    except OSError as error:
        raise CheckpointError(f"the checkpoint directory {directory!r} cannot be read: {error}") from error


def _allocations(found: Checkpoint) -> block_events.Event:
    """What a checkpoint knows of the batches that blocks were given to."""
    stream_ids = [saved.stream_id for saved in found.inputs]
    return block_events.allocations_lost(found.zero_time_ms, found.batch_interval_ms, found.last_time_ms, stream_ids)


def _resume_of(found: Checkpoint, tables_ms: int | None, settings: conf.Settings) -> Resume | None:
    if found.zero_time_ms < 0:
        return None  # it died before its first batch
    return Resume(
        found.zero_time_ms,
        found.last_time_ms,
        frozenset(found.pending),
        tables_ms,
        settings[conf.CATCH_UP_BATCHES],
        settings[conf.CATCH_UP] == "skip-empty",
    )
