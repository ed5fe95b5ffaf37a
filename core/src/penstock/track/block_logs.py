"""``BlockLogs``: the block log as the driver sees it: where each stream's is, and the deleting of what is not needed.

Owns the thread that deletes: a file system that takes its time holds up neither batches nor receivers. What was asked
of it is done before it stops; all else stays when the context stops, for one that goes on from the checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pyspark import SparkContext

from penstock import conf
from penstock.blocks.block import StoredBlock
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, file_name, stream_directory
from penstock.conf import Settings
from penstock.errors import ConfigurationError
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.spark import checkpoint
from penstock.storage.uri import location_of_hadoop

log = get_logger("block_log")


class BlockLogs:
    """The logs of a fixed set of streams.

    Args:
        checkpoint_directory: in full.
        stream_ids: of the receiver input streams.

    Raises:
        ConfigurationError: no file system answers to the directory.
    """

    def __init__(self, checkpoint_directory: str, stream_ids: Iterable[int]) -> None:
        #: What they all are in.
        self.home = checkpoint_directory
        self._logs = {
            stream_id: WriteAheadLogBlockHandler(stream_directory(checkpoint_directory, stream_id))
            for stream_id in stream_ids
        }
        self._loop: EventLoop[list[StoredBlock]] = EventLoop("BlockLogs", self._delete, self._on_error)

    @classmethod
    def of(
        cls, sc: SparkContext, settings: Settings, checkpoint_directory: str | None, stream_ids: Iterable[int]
    ) -> BlockLogs | None:
        """The logs of a context; ``None`` when it has none.

        Raises:
            ConfigurationError: it should have, and has no directory for them.
        """
        stream_ids = list(stream_ids)
        if not stream_ids or not settings.wal_enabled:
            return None
        if not checkpoint_directory:
            raise ConfigurationError(
                f"{conf.key('wal_enabled')}=true keeps blocks in the checkpoint directory, and there is none: call "
                f"ssc.checkpoint(directory) before the start, or set {conf.key('checkpoint_directory')}; all executors "
                "must be able to write to it"
            )
        return cls(location_of_hadoop(checkpoint.qualified(sc, checkpoint_directory)), stream_ids)

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def directory(self, stream_id: int) -> str:
        """Where the log of a stream is: a path, or a URI."""
        return self._logs[stream_id].directory

    def sweep(self, known: Iterable[StoredBlock]) -> None:
        """Delete what an earlier run stored and nobody was told of, before a receiver is launched."""
        names = {file_name(block.block_id) for block in known}
        for block_log in self._logs.values():
            block_log.sweep(names)

    def set_aside(self, known: Iterable[StoredBlock], folder: str) -> None:
        """Keep what the journal does not know of, when it is not whole, in a folder of each log."""
        names = {file_name(block.block_id) for block in known}
        for block_log in self._logs.values():
            block_log.set_aside(names, folder)

    def delete(self, blocks: Iterable[StoredBlock]) -> None:
        """Delete blocks that no batch needs any more; returns at once. What cannot be deleted is logged and left."""
        self._loop.post(list(blocks))

    def stop(self, timeout_s: float) -> None:
        """Delete what was asked for so far, then end the thread. Harmless when repeated."""
        self._loop.stop(timeout_s, drain=True)

    def _delete(self, blocks: list[StoredBlock]) -> None:
        by_stream: dict[int, list[str]] = defaultdict(list)
        for block in blocks:
            by_stream[block.stream_id].append(block.block_id)
        for stream_id, block_ids in by_stream.items():
            self._logs[stream_id].delete(block_ids)

    def _on_error(self, error: BaseException) -> None:
        log.error("block files not deleted", exc_info=error)
