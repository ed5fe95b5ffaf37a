"""``WriteAheadLogBlockHandler``: where blocks live when ``spark.streaming.receiver.writeAheadLog.enable`` is set.

Owns one stream's directory in the block log, ``<checkpoint directory>/receivedData/<stream id>``, in which each block
is one file: written once, whole or not there, with a checksum that travels with the block. It outlives the receiver,
its executor and its host, and is deleted by name when no batch needs it; nothing else in the directory is touched.
``store`` runs on whatever thread stores, deleting on the driver's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from functools import partial
from pathlib import Path

import pyarrow as pa

from penstock.blocks import block_file, place
from penstock.blocks.block import Block, StoredBlock
from penstock.blocks.log_files import PARTIAL, files_of
from penstock.conf import Settings
from penstock.errors import BlockGoneError, StoreError, text_of
from penstock.runtime.log import get_logger

log = get_logger("block_log")

_HOME = "receivedData"
_SUFFIX = ".arrow"
# A name, never a path: what comes over the wire must not lead out of the directory.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_BLOCK = re.compile(r"input-(\d+)-\d+-\d+")
_FILE = re.compile(rf"{_BLOCK.pattern}({re.escape(_SUFFIX)}|{re.escape(PARTIAL)})")


def stream_directory(checkpoint_directory: str, stream_id: int) -> str:
    """Where the log of a stream is: a path of this host, or a URI.

    Args:
        checkpoint_directory: as the program names it, or as ``spark.checkpoint.qualified`` does.
        stream_id: of the receiver's input stream.
    """
    return f"{place.absolute(checkpoint_directory).rstrip('/')}/{_HOME}/{stream_id}"


def file_name(block_id: str) -> str:
    """What the file of a block is called.

    Raises:
        StoreError: that is not the name of a block.
    """
    if not _BLOCK.fullmatch(block_id):
        raise StoreError(f"{block_id[:100]!r} is not the name of a block")
    return f"{block_id}{_SUFFIX}"


class LocalBlockHandler:
    """Write, find and delete the block files below one directory.

    Args:
        directory: of the run; made when the first block is stored.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self, block: Block) -> StoredBlock:
        """Write a block.

        Raises:
            OSError: the disk is full or the directory cannot be written; nothing is left behind.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{block.block_id}{_SUFFIX}"
        partial = path.with_suffix(".partial")
        try:
            with pa.OSFile(str(partial), "wb") as sink:
                block_file.write(block.table, sink)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return StoredBlock(
            block.block_id, block.stream_id, block.num_records, path.stat().st_size, str(path), block.metadata
        )

    def open(self, block_id: str) -> pa.ipc.RecordBatchFileReader:
        """Map a block for reading.

        Raises:
            BlockGoneError: there is no such block here.
        """
        if not _NAME.fullmatch(block_id):
            raise BlockGoneError(f"{block_id[:100]!r} is not the name of a block")
        return block_file.open_file(str(self._directory / f"{block_id}{_SUFFIX}"))

    def delete(self, block_ids: Iterable[str]) -> int:
        """Delete blocks that nothing reads any more; say how many there were."""
        deleted = 0
        for block_id in block_ids:
            path = self._directory / f"{block_id}{_SUFFIX}"
            if _NAME.fullmatch(block_id) and path.exists():
                path.unlink(missing_ok=True)
                deleted += 1
        return deleted


class WriteAheadLogBlockHandler:
    """Write and delete the block files of one stream.

    Args:
        directory: as ``stream_directory`` gives it; made when the first block is stored.
        durability: a value of ``spark.penstock.writeAheadLog.durability``.

    Raises:
        ConfigurationError: no file system answers to its URI.
    """

    def __init__(self, directory: str, durability: str = "flush") -> None:
        self.directory = directory
        self._files = files_of(directory, durability)

    @classmethod
    def of(cls, directory: str, settings: Settings) -> WriteAheadLogBlockHandler:
        """The log in a directory, as durable as the settings say.

        Raises:
            ConfigurationError: no file system answers to its URI.
        """
        return cls(directory, settings.durability)

    def store(self, block: Block) -> StoredBlock:
        """Write a block.

        Raises:
            OSError: the disk is full or the directory cannot be written; nothing is left behind.
        """
        name = file_name(block.block_id)
        num_bytes, checksum = self._files.put(name, block.table)
        return StoredBlock(
            block.block_id,
            block.stream_id,
            block.num_records,
            num_bytes,
            f"{self.directory}/{name}",
            block.metadata,
            checksum,
        )

    def delete(self, block_ids: Iterable[str]) -> int:
        """Delete blocks that nothing reads any more; say how many there were. What fails is logged and left."""
        return len(self._delete([f"{block_id}{_SUFFIX}" for block_id in block_ids if _BLOCK.fullmatch(block_id)]))

    def sweep(self, known: Set[str]) -> list[str]:
        """Delete the files that are named as this stream's are, and are not known; say which they were."""
        swept = self._delete(self._unknown(known))
        if swept:
            log.info("blocks that no batch knows of swept", directory=self.directory, files=len(swept))
        return swept

    def set_aside(self, known: Set[str], folder: str) -> list[str]:
        """Move those files into a folder of the directory, where nothing deletes them; say which they were.

        What was never finished was never acknowledged, and is deleted.
        """
        unknown = self._unknown(known)
        self._delete([name for name in unknown if name.endswith(PARTIAL)])
        whole = [name for name in unknown if not name.endswith(PARTIAL)]
        moved = self._each(whole, partial(self._files.move, folder=folder), "block files not set aside")
        if moved:
            log.error(
                "blocks are kept aside that the journal does not know of: it is not whole, they may have been accepted",
                directory=f"{self.directory}/{folder}",
                files=len(moved),
            )
        return moved

    def _unknown(self, known: Set[str]) -> list[str]:
        stream_id = self.directory.rpartition("/")[2]
        try:
            names = sorted(self._files.names())
        except (OSError, pa.ArrowException) as error:
            log.warning("block log not swept", directory=self.directory, reason=text_of(error))
            return []
        ours = [name for name in names if (match := _FILE.fullmatch(name)) and match[1] == stream_id]
        return [name for name in ours if name not in known]

    def _delete(self, names: Iterable[str]) -> list[str]:
        return self._each(names, self._files.delete, "block files not deleted")

    def _each(self, names: Iterable[str], act: Callable[[str], bool], failure: str) -> list[str]:
        """Do something to files; say to which it was done. What fails is logged and left."""
        done, failed, reason = [], 0, ""
        for name in names:
            try:
                if act(name):
                    done.append(name)
            except (OSError, pa.ArrowException) as error:
                failed, reason = failed + 1, reason or text_of(error)
        if failed:
            log.warning(failure, directory=self.directory, files=failed, reason=reason)
        return done


def sweep(directory: str, known: Set[str]) -> list[str]:
    """Delete the orphans of a stream: blocks that were stored and never acknowledged, and what was never finished.

    For a driver that recovers, before it launches a receiver: from then on there are blocks that it does not know yet.

    Args:
        directory: of the stream, as ``stream_directory`` gives it.
        known: names of the files that are needed, as ``file_name`` gives them.

    Returns:
        The names of the files that were deleted.
    """
    return WriteAheadLogBlockHandler(directory).sweep(known)
