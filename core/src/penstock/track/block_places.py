"""``BlockPlaces``: where every block is that is needed still, who serves it, and the deleting of the others.

Owns the place of each block, the directories they are in, and what could not be deleted yet. Never reads a block. Any
endpoint serves all that the run has on its host in the directory that it stores in: of whichever receiver and launch a
block is, it is read, and deleted, through whoever is there now. With the block log on, blocks are in the log, all of
them: which host stored one is good to know no more than for its speed. ``add`` runs on the endpoint's threads,
``references`` and ``forget`` on the generator's loop, all else on the tracker's loop.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from penstock.blocks.block import BlockReference, StoredBlock
from penstock.blocks.messages import BlockSource, FindBlock
from penstock.receive.messages import CleanUpBlocks
from penstock.storage.uri import is_remote
from penstock.track.block_logs import BlockLogs
from penstock.track.line import Line, Place


class BlockPlaces:
    """The blocks of a run, by where they are.

    Args:
        lines: to all endpoints that serve blocks now.
        has_executor: whether there is an executor on a host.
        run_id: names the directory that is the run's own.
        post: has something done on the tracker's loop.
        on_this_machine: all tasks find all files themselves.
        logs: the block log, when it is on.
    """

    def __init__(
        self,
        lines: Callable[[], Iterable[Line]],
        has_executor: Callable[[str], bool],
        run_id: str,
        post: Callable[[Callable[[], None]], None],
        logs: BlockLogs | None = None,
        *,
        on_this_machine: bool = False,
    ) -> None:
        self._lines, self._has_executor, self._run_id, self._post = lines, has_executor, run_id, post
        self._logs, self._on_this_machine = logs, on_this_machine
        self._places: dict[str, Place] = {}
        self._directories: set[Path] = set()
        # By where they are, when nobody was there to delete them.
        self._leftovers: dict[Place, list[str]] = {}

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
        lines = {line.place: line for line in self._lines()} if self._logs is None else {}
        found = []
        for block in blocks:
            place = self._places.get(block.block_id, Place())
            line = lines.get(place)
            source = "" if line is None else line.location
            reference = BlockReference(
                block.block_id, block.path, block.num_records, source, block.stream_id, block.checksum
            )
            # Spark may not have said it yet when one of them registered.
            host = place.host or ("" if line is None else line.place.host)
            # A file that no host has is as far from one as from another.
            found.append(("" if is_remote(block.path) else host, block.num_bytes, reference))
        return found

    def find(self, asked: FindBlock) -> BlockSource:
        """Say where a block can be had now; it is gone when nobody serves its host and no executor is left there."""
        place = self._places.get(asked.block_id)
        line = self._server(place)
        if line is not None:
            return BlockSource(line.location)
        # On its own host the task would have found the file; on another one it may come to run there yet.
        is_gone = place is None or place.address == asked.address or not self._may_be_there(place)
        return BlockSource("", is_gone)

    def needs(self, line: Line) -> bool:
        """Say whether blocks can be had through this line alone that are needed still."""
        alone = all(other.place != line.place or other.location == line.location for other in self._lines())
        return alone and self._is_needed(line.place)

    def awaits(self, place: Place) -> bool:
        """Say whether blocks are needed still from a place that nobody serves."""
        return self._is_needed(place) and self._server(place) is None

    def delete(self, blocks: Iterable[StoredBlock]) -> None:
        """Forget blocks and delete their files where they are, or as soon as somebody serves that place again."""
        by_place: dict[Place, list[str]] = defaultdict(list)
        for block in blocks:
            place = self._places.pop(block.block_id, None)
            if place is not None:
                by_place[place].append(block.block_id)
        for place, block_ids in by_place.items():
            self._delete_at(place, block_ids)

    def delete_leftovers(self, line: Line) -> None:
        """Somebody serves a place: delete what nobody was there to delete before."""
        if line.place in self._leftovers:
            self._delete_at(line.place, [])

    def delete_directories(self) -> None:
        """Delete the run's own directories on this machine."""
        for directory in self._directories:
            # Its own alone: a plugin may have stored elsewhere.
            if directory.name == self._run_id:
                shutil.rmtree(directory, ignore_errors=True)

    def _is_needed(self, place: Place) -> bool:
        """Whether tasks may have to fetch blocks from a place."""
        return self._logs is None and not self._on_this_machine and place in list(self._places.values())

    def _may_be_there(self, place: Place) -> bool:
        """Whether files are still in a place, for all that is known: executors are, or Spark has not named its host."""
        return not place.host or self._has_executor(place.host)

    def _server(self, place: Place | None) -> Line | None:
        return next((line for line in self._lines() if line.place == place), None)

    def _delete_at(self, place: Place, block_ids: list[str]) -> None:
        line, block_ids = self._server(place), self._leftovers.pop(place, []) + block_ids
        if line is not None:
            line.tell(CleanUpBlocks(block_ids), undelivered=partial(self._post, partial(self._keep, line, block_ids)))
        elif self._may_be_there(place):
            self._leftovers[place] = block_ids
        # Where all executors are gone, so are their files, or Spark removes them.

    def _keep(self, line: Line, block_ids: list[str]) -> None:
        """It was not reached: for the next time, or for who has come in the meantime."""
        self._leftovers[line.place] = self._leftovers.get(line.place, []) + block_ids
        server = self._server(line.place)
        if server is not None and server.location != line.location:
            self._delete_at(line.place, [])
