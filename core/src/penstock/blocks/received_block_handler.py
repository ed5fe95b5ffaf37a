"""``ReceivedBlockHandler``: stores the blocks of receivers, each in an Arrow IPC file that appears whole or not at all.

Both implementations implement the ``store`` hook, after all plugins. Any thread may store; the endpoint's threads read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from penstock.blocks import arrow_form
from penstock.blocks.block import Block, StoredBlock
from penstock.errors import BlockGoneError, StoreError, text_of
from penstock.hookspecs import hookimpl
from penstock.runtime.log import get_logger
from penstock.runtime.private_files import atomic_write, is_partial, make_private
from penstock.storage.directory import Directory, LocalDirectory
from penstock.storage.uri import absolute_location

log = get_logger("received_block_handler")

_HOME = "receivedData"
_SUFFIX = ".arrow"
# A name, never a path: a message from the wire must not lead out of the directory.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LOGGED = re.compile(r"input-(\d+)-(\d+)-\d+")


class ReceivedBlockHandler(Protocol):
    """Stores a block, replacing one with the same id; after an OSError no part of it remains."""

    def store(self, block: Block) -> StoredBlock | None: ...
    def delete(self, block_ids: Iterable[str]) -> object: ...


class LocalBlockHandler(ReceivedBlockHandler):
    """Blocks in the run's directory on this host, which all launches of all receivers on this host share."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @hookimpl(trylast=True)
    def store(self, block: Block) -> StoredBlock:
        make_private(self._directory)
        path = self._directory / f"{block.block_id}{_SUFFIX}"
        with atomic_write(path) as unfinished, pa.OSFile(str(unfinished), "wb") as sink:
            arrow_form.write_table(block.table, sink)
        return block.stored(str(path), path.stat().st_size)

    def open(self, block_id: str) -> pa.ipc.RecordBatchFileReader:
        """Map a block's file for reading, without a copy; raises ``BlockGoneError`` if this host does not have it."""
        if not _NAME.fullmatch(block_id):
            raise BlockGoneError(f"{block_id[:100]!r} is not the name of a block")
        return arrow_form.open_block_file(str(self._directory / f"{block_id}{_SUFFIX}"))

    def delete(self, block_ids: Iterable[str]) -> int:
        """Delete blocks; return how many existed."""
        directory = LocalDirectory(self._directory)
        return sum(directory.delete(f"{block_id}{_SUFFIX}") for block_id in block_ids if _NAME.fullmatch(block_id))


class WriteAheadLogBlockHandler(ReceivedBlockHandler):
    """The receiver write-ahead log of one stream: the directory ``<checkpoint directory>/receivedData/<stream id>``.

    A block's checksum travels with its reference. The log survives the receiver, its executor and its host. The driver
    deletes blocks by name, within ``held``; other files in the directory are not touched.
    """

    def __init__(
        self,
        directory: str,
        durability: str = "flush",
        held: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.directory = directory
        self._held = held
        self._files = Directory.of(directory)
        self._syncs = durability == "fsync"

    @hookimpl(trylast=True)
    def store(self, block: Block) -> StoredBlock:
        name = file_name(block.block_id)
        with self._files.create(name, sync=self._syncs) as file:
            num_bytes, checksum = arrow_form.write_block_file(block.table, file)
        return block.stored(f"{self.directory}/{name}", num_bytes, checksum)

    def delete(self, block_ids: Iterable[str]) -> int:
        """Delete blocks; return how many existed. The files of failed deletions remain, and the failures are logged."""
        names = [f"{block_id}{_SUFFIX}" for block_id in block_ids if _LOGGED.fullmatch(block_id)]
        return len(self._apply("delete", names, self._files.delete))

    def remove_unknown(self, known_names: Set[str], aside: str = "") -> list[str]:
        """Delete blocks whose files are not in ``known_names``, or move them to the folder ``aside``; return the names.

        A recovering driver calls this before it launches receivers. Unknown blocks were never acknowledged, unless the
        driver write-ahead log is incomplete: then they are set aside. Unfinished files are deleted.
        """
        stream_id = self.directory.rpartition("/")[2]
        try:
            all_names = self._files.all_names()
        except OSError as error:
            log.warning("receiver write-ahead log not swept", directory=self.directory, reason=text_of(error))
            return []
        self._apply("delete", filter(is_partial, all_names), self._files.delete)
        blocks = {name: _LOGGED.fullmatch(name.removesuffix(_SUFFIX)) for name in all_names if name.endswith(_SUFFIX)}
        unknown = [
            name for name, match in blocks.items() if match and match[1] == stream_id and name not in known_names
        ]
        if not aside:
            if removed := self._apply("delete", unknown, self._files.delete):
                log.info("unknown blocks deleted", directory=self.directory, files=len(removed))
            return removed
        removed = self._apply("set aside", unknown, partial(self._files.move, folder=aside))
        if removed:
            log.error(
                "unknown blocks set aside",
                reason="the driver write-ahead log is incomplete: receivers may have acknowledged these blocks",
                directory=f"{self.directory}/{aside}",
                files=len(removed),
            )
        return removed

    def remove_unreported(self, known: Set[str], epoch: int) -> None:
        """Delete the files of launches before ``epoch``, which can report no more, except those of ``known`` blocks."""
        matches = [_LOGGED.fullmatch(name.removesuffix(_SUFFIX)) for name in self._files.names()]
        names = [
            f"{match[0]}{_SUFFIX}" for match in matches if match and match[0] not in known and int(match[2]) < epoch
        ]
        if removed := self._apply("delete", names, self._files.delete):
            log.info("unreported blocks deleted", directory=self.directory, files=len(removed))

    def _apply(self, action: str, names: Iterable[str], act: Callable[[str], bool]) -> list[str]:
        """Call ``act`` for every file; return the names of those that existed. Failures are logged together."""
        done: list[str] = []
        errors: list[OSError] = []
        with self._held():
            for name in names:
                try:
                    if act(name):
                        done.append(name)
                except OSError as error:
                    errors.append(error)
        if errors:
            fields = {"action": action, "directory": self.directory, "files": len(errors), "reason": text_of(errors[0])}
            log.warning("block files left in place", **fields)
        return done


def stream_directory(checkpoint_directory: str, stream_id: int) -> str:
    """The directory of a stream's write-ahead log: an absolute path, or a URI."""
    return f"{absolute_location(checkpoint_directory).rstrip('/')}/{_HOME}/{stream_id}"


def file_name(block_id: str) -> str:
    """The name of a block's file in the write-ahead log. The id must be ``input-<stream>-<epoch>-<number>``."""
    if not _LOGGED.fullmatch(block_id):
        raise StoreError(f"{block_id[:100]!r} is not the name of a block")
    return f"{block_id}{_SUFFIX}"
