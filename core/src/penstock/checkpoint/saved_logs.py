"""``saved_logs``: the write-ahead logs of a checkpoint directory, read as a recovery reads them that skips damage.

Changes nothing in the directory, and runs no code of the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from penstock.blocks.block import StoredBlock
from penstock.checkpoint.checkpoint_format import BLOCK_LOG, COMPLETED_OUTPUTS, Checkpoint
from penstock.journal.reader import LogReader, unknown_event
from penstock.journal.segment import Event, segment_name, segment_numbers
from penstock.storage.directory import Directory
from penstock.track.allocations import Allocations, allocations_lost


@frozen
class SavedLog:
    """One write-ahead log of a run.

    Attributes:
        name: its folder.
        segments: name and size in bytes of each file, oldest first.
        events: number of events that can be read.
        lost: number of missing events.
        damages: a message for each damage.
        blocks: the received blocks that a recovered run would have; none in the log of completed outputs.
        unallocated: those of them that belong to no batch yet.
    """

    name: str
    segments: tuple[tuple[str, int], ...]
    events: int = 0
    lost: int = 0
    damages: tuple[str, ...] = ()
    blocks: tuple[StoredBlock, ...] = ()
    unallocated: tuple[StoredBlock, ...] = ()


def saved_logs(directory: Directory, checkpoint: Checkpoint) -> Iterator[SavedLog]:
    """Read the write-ahead logs of the run that wrote a directory's newest sound checkpoint.

    Raises:
        WriteAheadLogError: a log cannot be read, or another version wrote it.
        OSError: the directory cannot be read.
    """
    for name in (BLOCK_LOG, COMPLETED_OUTPUTS):
        files = directory.child(name)
        segments = tuple((segment, len(files.read(segment))) for segment in map(segment_name, segment_numbers(files)))
        logged = checkpoint.logged_events if name == BLOCK_LOG else 0
        if not segments and not logged:
            continue
        events, last, state = LogReader(files, checkpoint.run, skips_damage=True).read()
        damages = state.damages
        if last < logged:
            damages += (f"{files.location()} ends with event {last}, and the checkpoint knows of {logged}",)
        missing = max(logged - last, 0)
        allocations = Allocations()
        if name == BLOCK_LOG:
            _apply(allocations, events, checkpoint if missing else None, files.location())
        blocks = tuple(allocations.known())
        streams = sorted({block.stream_id for block in blocks})
        unallocated = tuple(block for stream_id in streams for block in allocations.unallocated(stream_id))
        yield SavedLog(name, segments, len(events), state.lost + missing, damages, blocks, unallocated)


def lost_allocations(checkpoint: Checkpoint) -> Event:
    """The event that stands for the allocations of a checkpoint's batches if they are missing from the log."""
    batches = checkpoint.zero_time_ms, checkpoint.batch_interval_ms, checkpoint.last_time_ms
    return allocations_lost(*batches, [saved.stream_id for saved in checkpoint.inputs])


def _apply(allocations: Allocations, events: list[Event], ends_before: Checkpoint | None, location: str) -> None:
    """Apply the events of a log; allocations that the checkpoint knows of and the log lacks are substituted."""
    substitutes = [] if ends_before is None else [lost_allocations(ends_before)]
    try:
        for event in [*events, *substitutes]:
            allocations.apply(event)
    except (ValueError, TypeError, LookupError) as error:
        raise unknown_event(location, error) from error
