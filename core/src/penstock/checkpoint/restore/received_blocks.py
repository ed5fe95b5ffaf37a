"""The driver write-ahead log of a recovered run: received blocks and their allocation to batches.

With the write-ahead log on, blocks outlive the run. If the earlier run had it on and the recovered run has it off, the
recovered run must not need any block of the earlier run.
"""

from __future__ import annotations

from penstock import conf
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory
from penstock.checkpoint.checkpoint_format import BLOCK_LOG, Checkpoint
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.restore_points import RestorePoints
from penstock.checkpoint.saved_logs import lost_allocations
from penstock.errors import ConfigurationError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.log import get_logger
from penstock.track.allocations import Allocations

log = get_logger("checkpoint")


def block_log(
    program: Program, directory: CheckpointDirectory, run: str, checkpoint: Checkpoint | None
) -> WriteAheadLog:
    """The driver write-ahead log of a run, before its recovery; ``checkpoint`` is the one to recover from, if any."""
    files = directory.files.child(BLOCK_LOG)
    if checkpoint is None:
        return WriteAheadLog(files, run, program.settings, program.clock)
    logged, substitute = checkpoint.logged_events, lost_allocations(checkpoint)
    return WriteAheadLog(files, run, program.settings, program.clock, logged, substitute)


def check_no_blocks_needed(
    program: Program, directory: CheckpointDirectory, checkpoint: Checkpoint, points: RestorePoints
) -> None:
    """Check that a recovered run with the write-ahead log off needs no blocks of the earlier run."""
    allocations = Allocations()
    block_log(program, directory, checkpoint.run, checkpoint).recover(allocations)
    required_ms = points.oldest_required_ms
    needed = 0
    # No batch requests data of streams without an output.
    for stream in (stream for stream in program.graph.inputs if stream.number in required_ms):
        blocks = allocations.unallocated(stream.id)
        for time_ms in allocations.times:
            if time_ms >= required_ms[stream.number]:
                blocks = [*blocks, *allocations.blocks(time_ms, stream.id)]
        needed += sum(block.num_records for block in blocks)
    if not needed:
        return
    location = directory.files.location(BLOCK_LOG)
    if program.settings.on_damage != "skip":
        raise ConfigurationError(
            f"{conf.key('wal_enabled')} is off, and recovery needs {needed} records that an earlier run received "
            f"with it on, for incomplete batches, windows or state (log: {location}). Recover with it on and stop "
            f"gracefully before you switch it off, or recover without these records: {conf.key('on_damage')}=skip"
        )
    log.error("write-ahead log off, earlier records lost", records=needed, location=location)
