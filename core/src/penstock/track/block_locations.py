"""``BlockLocations``: the location of each needed block, the launch that serves it, and the deletion of all others.

A block is read and deleted through the launch that runs on its host now, whichever launch stored it. With the
receivers' write-ahead log, hosts matter for speed only. ``add`` is called on the endpoint's threads, ``references`` and
``forget`` on the generator's loop, all else on the tracker's loop.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.blocks.block import BlockReference, StoredBlock
from penstock.blocks.block_transfer import BlockSource, FindBlock, LostBlock
from penstock.receive.messages import CleanUpBlocks
from penstock.storage.uri import is_remote
from penstock.track.batch_partitions import Located
from penstock.track.receiver_connection import Connections, ReceiverConnection
from penstock.track.receiver_launcher import ReceiverLauncher
from penstock.track.receiver_tracking_info import BlockLocation

_LOST_REMEMBERED = 10_000


class BlockLocations:
    """The blocks of a run, by location."""

    def __init__(self, launcher: ReceiverLauncher) -> None:
        self._launcher = launcher
        self._logs = launcher.logs
        #: The connections to the launches that serve blocks.
        self.connections = Connections()
        self._locations: dict[str, BlockLocation] = {}
        self._directories: set[Path] = set()
        # Ids of blocks that a launch at their location has yet to delete, by location.
        self._undeleted: dict[BlockLocation, list[str]] = {}
        # Lost blocks that were reported: several tasks, and several attempts of one, may miss the same block.
        self._lost: OrderedDict[str, None] = OrderedDict()

    def add(self, location: BlockLocation, blocks: Iterable[StoredBlock]) -> None:
        """Note where blocks were stored."""
        for block in blocks:
            self._locations[block.block_id] = location
            self._directories.add(Path(block.path).parent)

    def forget(self, blocks: Iterable[StoredBlock]) -> None:
        """Forget blocks that no batch needs."""
        for block in blocks:
            self._locations.pop(block.block_id, None)

    def disk(self, address: str) -> str:
        """Return the disk that stores the blocks of an address: the host's own, or the log that all hosts share."""
        return address if self._logs is None else self._logs.home

    def disk_of(self, block: StoredBlock) -> str:
        """The disk that stores a block."""
        return self.disk(self._locations.get(block.block_id, BlockLocation()).address)

    def references(self, blocks: Iterable[StoredBlock]) -> list[Located]:
        """For each block: its host, its size in bytes, and where a task reads it now."""
        connections = self.connections.by_location if self._logs is None else {}
        located = []
        for block in blocks:
            location = self._locations.get(block.block_id, BlockLocation())
            connection = connections.get(location)
            source, host = ("", "") if connection is None else (connection.source, connection.location.host)
            reference = BlockReference(
                block.block_id, block.path, block.num_records, source, block.stream_id, block.checksum
            )
            # Spark may have reported the host of only one of two launches at this location.
            host = location.host or host
            # A remote file has no preferred host.
            located.append(("" if is_remote(block.path) else host, block.num_bytes, reference))
        return located

    def find(self, asked: FindBlock) -> BlockSource:
        """The current location of a block; it is gone when no launch serves its host and no executor is left there."""
        location = self._locations.get(asked.block_id)
        if location is None:
            return BlockSource("", is_gone=True)
        if (connection := self.connections.by_location.get(location)) is not None:
            return BlockSource(connection.source)
        # A task on the block's own host would have found the file; on another host a launch may still register.
        return BlockSource("", location.address == asked.address or not self._may_be_there(location))

    def needs(self, connection: ReceiverConnection) -> bool:
        """Whether blocks are needed that are available through this connection alone."""
        others = [other.location for other in self.connections.serving() if other is not connection]
        return self._is_needed(connection.location) and connection.location not in others

    def awaits(self, location: BlockLocation) -> bool:
        """Whether blocks are needed from a location that no launch serves."""
        return self._is_needed(location) and location not in self.connections.by_location

    def delete(self, blocks: Iterable[StoredBlock]) -> None:
        """Forget blocks and delete their files where they are, or as soon as a launch serves that location again."""
        by_location: dict[BlockLocation, list[str]] = defaultdict(list)
        for block in blocks:
            location = self._locations.pop(block.block_id, None)
            if location is not None:
                by_location[location].append(block.block_id)
        for location, block_ids in by_location.items():
            self._delete_at(location, block_ids)

    def delete_pending_blocks(self, connection: ReceiverConnection) -> None:
        """Delete the blocks that no launch could delete at this location before."""
        if connection.location in self._undeleted:
            self._delete_at(connection.location, [])

    def not_deleted(self, unreachable: ReceiverConnection, block_ids: Sequence[str]) -> None:
        """Have the current or next launch at that location delete blocks that could not be deleted."""
        location = unreachable.location
        self._undeleted.setdefault(location, []).extend(block_ids)
        connection = self.connections.by_location.get(location)
        if connection is not None and connection.source != unreachable.source:
            self._delete_at(location, [])

    def delete_directories(self) -> None:
        """Delete the run's own directories on this machine."""
        for directory in self._directories:
            # A plugin may have stored blocks in other directories, which are not the run's own.
            if directory.name == self._launcher.run_id:
                shutil.rmtree(directory, ignore_errors=True)

    def note_lost(self, blocks: Iterable[LostBlock]) -> dict[int, list[LostBlock]]:
        """Note blocks that tasks could not read; return those that were not noted before, by stream id."""
        by_stream: dict[int, list[LostBlock]] = defaultdict(list)
        for block in blocks:
            if block.block_id not in self._lost:
                self._lost[block.block_id] = None
                by_stream[block.stream_id].append(block)
        while len(self._lost) > _LOST_REMEMBERED:
            self._lost.popitem(last=False)
        return by_stream

    def _is_needed(self, location: BlockLocation) -> bool:
        return self._logs is None and not self._launcher.on_this_machine and location in list(self._locations.values())

    def _may_be_there(self, location: BlockLocation) -> bool:
        """Whether files may still exist: an executor is on the host, or Spark has not reported the host."""
        return not location.host or self._launcher.placement.has_executor(location.host)

    def _delete_at(self, location: BlockLocation, block_ids: list[str]) -> None:
        block_ids = self._undeleted.pop(location, []) + block_ids
        if (connection := self.connections.by_location.get(location)) is not None:
            connection.send(CleanUpBlocks(block_ids))
        elif self._may_be_there(location):
            self._undeleted[location] = block_ids
        # On a host without executors, Spark removes the files, or they are gone with the host.
