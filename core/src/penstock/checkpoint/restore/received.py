"""The driver write-ahead log of a run: received blocks, and the batch that each is allocated to.

With the write-ahead log on, blocks outlive the run. If it was on in the earlier run and is now off, the recovered run
must not need any of the earlier run's blocks. Used before the start.
"""

from __future__ import annotations

from penstock import conf
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory
from penstock.checkpoint.manifest import BLOCK_LOG, Checkpoint
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.points import RestorePoints
from penstock.errors import ConfigurationError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.log import get_logger
from penstock.track.allocations import Allocations, allocations_lost

log = get_logger("checkpoint")


def block_log(program: Program, directory: CheckpointDirectory, run: str, found: Checkpoint | None) -> WriteAheadLog:
    """The driver write-ahead log of a run, not recovered yet.

    Args:
        program: the program that runs.
        directory: its checkpoint directory.
        run: id of the run.
        found: the checkpoint that the run recovers from, if any.
    """
    files = directory.files.child(BLOCK_LOG)
    if found is None:
        return WriteAheadLog(files, run, program.settings, program.clock)
    # Replaces the allocations of batches that the checkpoint mentions, if they are missing from the log.
    stream_ids = [saved.stream_id for saved in found.inputs]
    batches = found.zero_time_ms, found.batch_interval_ms, found.last_time_ms
    substitute = allocations_lost(*batches, stream_ids)
    return WriteAheadLog(files, run, program.settings, program.clock, found.logged_events, substitute)


def check_no_blocks_needed(
    program: Program, directory: CheckpointDirectory, found: Checkpoint, points: RestorePoints
) -> None:
    """Check that a run with the write-ahead log off needs no blocks of the run that it recovers from."""
    allocations = Allocations()
    block_log(program, directory, found.run, found).recover(allocations)
    required_ms = points.oldest_required_ms
    needed = 0
    # Streams that no output reaches are never asked for anything.
    for stream in (each for each in program.graph.inputs if each.number in required_ms):
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
