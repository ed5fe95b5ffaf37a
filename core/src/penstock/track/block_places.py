"""``BlockPlaces``: where every block is that is needed still, and the deleting of the others.

Owns the place of each block, the directories they are in, and what could not be deleted yet. Never reads a block. With
the block log on, blocks are in the log, all of them: which host stored one is good to know no more than for its speed.
``add`` runs on the endpoint's threads, ``references`` and ``forget`` on the generator's loop, deleting on the tracker's
loop.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from penstock.blocks.block import BlockReference, StoredBlock
from penstock.blocks.place import is_remote
from penstock.track.block_logs import BlockLogs
from penstock.track.tracked_receiver import Place, TrackedReceiver
from penstock.wire.messages import CleanUpBlocks


class BlockPlaces:
    """The blocks of a run, by where they are.

    Args:
        tracked: the receivers, by stream id.
        run_id: names the directory that is the run's own.
        post: has something done on the tracker's loop.
        logs: the block log, when it is on.
    """

    def __init__(
        self,
        tracked: Mapping[int, TrackedReceiver],
        run_id: str,
        post: Callable[[Callable[[], None]], None],
        logs: BlockLogs | None = None,
    ) -> None:
        self._tracked, self._run_id, self._post, self._logs = tracked, run_id, post, logs
        self._places: dict[str, Place] = {}
        self._directories: set[Path] = set()

    def add(self, place: Place, blocks: Iterable[StoredBlock]) -> None:
        """Note where blocks were stored."""
        for block in blocks:
            self._places[block.block_id] = place
            self._directories.add(Path(block.path).parent)

    def forget(self, blocks: Iterable[StoredBlock]) -> None:
        """Nothing asks for these blocks any more."""
        for block in blocks:
            self._places.pop(block.block_id, None)

    def disk(self, address: str) -> str:
        """What bounds the unread blocks that are stored from an address: its own disk, or the log that all share."""
        return address if self._logs is None else self._logs.home

    def references(self, blocks: Iterable[StoredBlock]) -> list[tuple[str, int, BlockReference]]:
        """For each block: its host, its size in bytes, and where a task finds it now."""
        found = []
        for block in blocks:
            tracked = self._tracked[block.stream_id]
            place = self._places.get(block.block_id, Place())
            # An endpoint has the blocks of its own host, those of earlier launches there included.
            serves = tracked.client if self._logs is None and tracked.place == place else None
            source = "" if serves is None else serves.location
            reference = BlockReference(
                block.block_id, block.path, block.num_records, source, block.stream_id, block.checksum
            )
            # A file that no host has is as far from one as from another.
            found.append(("" if is_remote(block.path) else place.host, block.num_bytes, reference))
        return found

    def delete(self, blocks: Iterable[StoredBlock]) -> None:
        """Have the blocks' files deleted where they are, or as soon as their receiver is back. Not those of the log."""
        by_stream: dict[int, list[str]] = defaultdict(list)
        for block in blocks:
            by_stream[block.stream_id].append(block.block_id)
        for stream_id, block_ids in by_stream.items():
            self._delete_of(self._tracked[stream_id], block_ids)

    def delete_leftovers(self, tracked: TrackedReceiver) -> None:
        """The receiver is back: have it delete what it could not be told of before."""
        if tracked.leftovers:
            self._delete_of(tracked, [])

    def delete_directories(self) -> None:
        """Delete the run's own directories on this machine."""
        for directory in self._directories:
            # Its own alone: a plugin may have stored elsewhere.
            if directory.parent.name == self._run_id:
                shutil.rmtree(directory.parent, ignore_errors=True)

    def _delete_of(self, tracked: TrackedReceiver, block_ids: list[str]) -> None:
        block_ids, tracked.leftovers = tracked.leftovers + block_ids, []
        epoch = tracked.epoch

        def keep() -> None:
            tracked.leftovers.extend(block_ids)
            if tracked.is_active and tracked.epoch != epoch:
                # It has come back in the meantime.
                self._delete_of(tracked, [])

        if tracked.is_active:
            tracked.tell(CleanUpBlocks(block_ids), undelivered=lambda: self._post(keep))
        else:
            keep()
