"""``saved_logs``: the write-ahead logs of a checkpoint directory, read like a recovery that skips damage.

Changes nothing in the directory, and runs no code of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from penstock import StoredBlock
from penstock.spi import BLOCK_LOG, COMPLETED_OUTPUTS, Allocations, Checkpoint, Directory, read_log


@frozen
class SavedLog:
    """One write-ahead log of a run.

    Attributes:
        name: name of its folder.
        segments: name and size in bytes of each file, oldest first.
        events: number of events that can be read.
        lost: number of missing events.
        damages: a message for each damage.
        blocks: the received blocks that a recovered run would have; none in the log of completed outputs.
        unallocated: the received blocks that belong to no batch yet.
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
    for name, logged in ((BLOCK_LOG, checkpoint.logged_events), (COMPLETED_OUTPUTS, 0)):
        files = directory.child(name)
        segments = tuple((file, len(files.read(file))) for file in files.names() if file.startswith("segment-"))
        if segments or logged:
            yield _read(files, name, segments, checkpoint, logged)


def _read(
    files: Directory, name: str, segments: tuple[tuple[str, int], ...], checkpoint: Checkpoint, logged: int
) -> SavedLog:
    allocations = Allocations()
    substitute = checkpoint.lost_allocations()
    events: list[object] = []

    def apply(event: dict[str, Any]) -> None:
        # The substitute is not in the log.
        if event is not substitute:
            events.append(event)
        if name == BLOCK_LOG:
            allocations.apply(event)

    recovered = read_log(files, checkpoint.run, apply, logged, substitute, skips_damage=True, skips_end=True)
    blocks = tuple(allocations.retained())
    streams = sorted({block.stream_id for block in blocks})
    unallocated = tuple(block for stream_id in streams for block in allocations.unallocated(stream_id))
    return SavedLog(name, segments, len(events), recovered.lost, recovered.damages, blocks, unallocated)
