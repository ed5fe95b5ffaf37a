"""``BlockLogs``: locates the receivers' write-ahead logs for the driver, and deletes blocks from them.

Owns the thread that deletes, so that a slow file system delays neither batches nor receivers. It completes the
deletions that were asked for before it stops; all other blocks remain for a recovery from the checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Set
from contextlib import nullcontext
from functools import partial

from pyspark import SparkContext

from penstock import conf
from penstock.blocks.block import StoredBlock
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, file_name, stream_directory
from penstock.conf import Settings
from penstock.errors import ClaimLostError, ConfigurationError
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.spark import rdd_files
from penstock.storage.claim import Claim
from penstock.storage.uri import location_of_hadoop

log = get_logger("block_logs")


class BlockLogs:
    """The logs of a fixed set of streams. Blocks are deleted while ``claim`` is held."""

    def __init__(self, checkpoint_directory: str, stream_ids: Iterable[int], claim: Claim | None = None) -> None:
        #: The directory that holds all logs.
        self.home = checkpoint_directory
        self._claim = claim
        held = nullcontext if claim is None else partial(claim.held, deletes=True)
        self._logs = {
            stream_id: WriteAheadLogBlockHandler(stream_directory(checkpoint_directory, stream_id), held=held)
            for stream_id in stream_ids
        }
        self._loop: EventLoop[Callable[[], None]] = EventLoop("BlockLogs", lambda action: action(), self._on_error)

    @classmethod
    def of(
        cls,
        sc: SparkContext,
        settings: Settings,
        checkpoint_directory: str | None,
        stream_ids: Collection[int],
        claim: Claim | None = None,
    ) -> BlockLogs | None:
        """The logs of a context; ``None`` when the write-ahead log is off."""
        if not stream_ids or not settings.wal_enabled:
            return None
        if not checkpoint_directory:
            raise ConfigurationError(
                f"{conf.key('wal_enabled')}=true needs a checkpoint directory for the blocks, and none is set: call "
                f"ssc.checkpoint(directory) before the start, or set {conf.key('checkpoint_directory')}; all executors "
                "must be able to write to it"
            )
        return cls(location_of_hadoop(rdd_files.qualified(sc, checkpoint_directory)), stream_ids, claim)

    def require_claim(self) -> None:
        """Raise ``ClaimLostError`` if the claim was found lost: another driver may have the blocks of this one."""
        if self._claim is not None and self._claim.lost is not None:
            raise self._claim.lost

    def directory(self, stream_id: int) -> str:
        """The directory of a stream's log: a path, or a URI."""
        return self._logs[stream_id].directory

    def remove_unknown(self, known_blocks: Iterable[StoredBlock], aside: str = "") -> None:
        """Remove blocks that the driver does not know from every log: see ``WriteAheadLogBlockHandler``."""
        names = {file_name(block.block_id) for block in known_blocks}
        for block_log in self._logs.values():
            block_log.remove_unknown(names, aside)

    def start(self) -> None:
        """Start the thread that deletes."""
        self._loop.start()

    def delete(self, blocks: Iterable[StoredBlock]) -> None:
        """Delete blocks that no batch needs; returns at once. A failure is logged and leaves the file."""
        by_stream: dict[int, list[str]] = defaultdict(list)
        for block in blocks:
            by_stream[block.stream_id].append(block.block_id)

        def delete() -> None:
            for stream_id, block_ids in by_stream.items():
                self._logs[stream_id].delete(block_ids)

        self._loop.post(delete)

    def remove_unreported(self, stream_id: int, epoch: int, known: Callable[[], Set[str]]) -> None:
        """Delete what launches before ``epoch`` stored and the driver did not accept; returns at once.

        ``known`` is called on the thread that deletes.
        """
        self._loop.post(lambda: self._logs[stream_id].remove_unreported(known(), epoch))

    def stop(self, timeout_s: float) -> None:
        """Complete the requested deletions, then end the thread. May be called again."""
        self._loop.stop(timeout_s, drain=True)

    def _on_error(self, error: BaseException) -> None:
        # The claim itself reports its loss.
        if not isinstance(error, ClaimLostError):
            log.error("block files not deleted", exc_info=error)
