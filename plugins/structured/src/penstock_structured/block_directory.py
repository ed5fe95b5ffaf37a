"""``BlockDirectory``: the numbered blocks of one query on the driver's host.

A block is one Arrow file. ``store`` writes it under a hidden name; ``accept`` renames it to the next number, and only
then the query sees it. The file name contains number, rows, bytes and checksum, so a restart needs nothing else. One
process at a time owns the directory, through a lock that the system releases when the process ends. The query sees a
block only once its name is on the disk: a power failure must not lose a block that the checkpoint refers to.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import pyarrow as pa
from attrs import frozen

from penstock import Block, ConfigurationError, PenstockError, StoredBlock
from penstock.spi import (
    BlockReference,
    Directory,
    atomic_write,
    get_logger,
    make_private,
    open_block_file,
    write_block_file,
)

log = get_logger("structured")

_FORMAT = 1
_DESCRIPTION, _LOCK, _CONSUMED, _RATE = "penstock-source.json", "lock", "consumed", "rate"
_OURS = frozenset((_DESCRIPTION, _LOCK, _CONSUMED, _RATE))
_NAME = re.compile(r"(\d{12})-(\d+)-(\d+)-([0-9a-f]{8})\.arrow")
# Files left behind by a killed process: blocks that were not accepted, and incomplete files.
_REMAINS = re.compile(r"\..+\.(stored|[0-9a-f]{8}\.partial)")
# Maximum time to wait for the source of a query that was just stopped: it may still flush.
_LOCK_TIMEOUT_S, _LOCK_POLL_S = 10.0, 0.05


@frozen
class NumberedBlock:
    """An accepted block.

    Attributes:
        number: its position in the query's input, which is also its offset.
        rows: number of records.
        num_bytes: size of the file.
        checksum: CRC-32 of the file.
        path: the file.
    """

    number: int
    rows: int
    num_bytes: int
    checksum: int
    path: Path

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Parse a block from its file name; ``None`` for another file."""
        match = _NAME.fullmatch(path.name)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3]), int(match[4], 16), path)

    def reference(self, location: str) -> BlockReference:
        """The reference that tasks use to read the block.

        Args:
            location: ``grpc://host:port`` of the server that serves it; empty for none.
        """
        return BlockReference(self.path.name, str(self.path), self.rows, location, checksum=self.checksum)


@frozen
class _Stored:
    """A stored block that is not accepted yet, under its hidden name."""

    path: Path
    rows: int
    num_bytes: int
    checksum: int

    def numbered(self, number: int) -> NumberedBlock:
        name = f"{number:012d}-{self.rows}-{self.num_bytes}-{self.checksum:08x}.arrow"
        return NumberedBlock(number, self.rows, self.num_bytes, self.checksum, self.path.with_name(name))


class BlockDirectory:
    """The blocks of one query, in order. Thread-safe.

    Args:
        path: absolute path; created if missing.
        receiver: name of the receiver that stores the blocks.
        durable: whether files and names are on the disk when ``accept`` returns.
        fails_on_loss: whether lost blocks are an error, or only a logged warning.

    Raises:
        ConfigurationError: the directory cannot be used: another process uses it, it belongs to another receiver, it
            contains foreign files, or it cannot be written.
    """

    def __init__(self, path: Path, receiver: str, *, durable: bool = True, fails_on_loss: bool = True) -> None:
        self.path = path
        self._durable = durable
        self._fails_on_loss = fails_on_loss
        # One thread accepts blocks at a time, and one deletes them; the third lock guards the attributes below.
        self._accepting = threading.Lock()
        self._deleting = threading.Lock()
        self._lock = threading.Lock()
        # Accepted blocks, in order.
        self._blocks: list[NumberedBlock] = []
        # By block id: stored blocks that are not accepted yet, and blocks that are renamed but not accepted yet.
        self._stored: dict[str, _Stored] = {}
        self._renamed: dict[str, NumberedBlock] = {}
        self._is_closed = False
        try:
            make_private(path)
            self._check(receiver)
            self._lock_file = _locked(path)
            try:
                # Check again under the lock: another query may have used the new directory meanwhile.
                self._check(receiver)
                self._describe(receiver)
                consumed = self._consumed()
                self._sweep(consumed)
            except BaseException:
                self._lock_file.close()
                raise
        except OSError as error:
            raise ConfigurationError(
                f"the directory of the option 'blocks', {path}, cannot be used: {error.strerror or error}"
            ) from None
        #: The number of the next accepted block.
        self.next_number = max(consumed, self._blocks[-1].number + 1 if self._blocks else 0)
        self.num_bytes = sum(block.num_bytes for block in self._blocks)
        #: When the last block was accepted, monotonic seconds.
        self.accepted_s = time.monotonic()

    def close(self) -> None:
        """Release the directory; ``store`` and ``accept`` then raise. Idempotent."""
        with self._accepting:
            self._is_closed = True
            self._lock_file.close()

    # -- the receiver's side --

    def store(self, block: Block) -> StoredBlock:
        """Write a block under a hidden name.

        Raises:
            OSError: the block cannot be written; no part of it remains.
            PenstockError: the directory is closed.
        """
        self._require_open()
        path = self.path / f".{block.block_id}-{os.getpid()}.stored"
        try:
            with path.open("wb", buffering=0) as file:
                num_bytes, checksum = write_block_file(block.table, file)
                if self._durable:
                    os.fsync(file.fileno())
        except BaseException:
            # Report the error of the write, not of the cleanup.
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        with self._lock:
            self._stored[block.block_id] = _Stored(path, block.num_records, num_bytes, checksum)
        return block.stored(str(path), num_bytes, checksum)

    def delete(self, block_ids: Iterable[str]) -> None:
        """Delete stored blocks that were not accepted."""
        for block_id in block_ids:
            with self._lock:
                stored = self._stored.pop(block_id, None)
            if stored is not None:
                stored.path.unlink(missing_ok=True)

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        """Give stored blocks the next numbers. A repeated call skips blocks that have one.

        Raises:
            OSError: a block cannot be renamed, or its name cannot be synced to the disk.
            PenstockError: the directory is closed.
        """
        with self._accepting:
            self._require_open()
            for stored_block in blocks:
                with self._lock:
                    stored, number = self._stored.get(stored_block.block_id), self.next_number
                if stored is None:
                    continue
                block = stored.numbered(number)
                stored.path.rename(block.path)
                with self._lock:
                    del self._stored[stored_block.block_id]
                    self._renamed[stored_block.block_id], self.next_number = block, number + 1
            if self._durable and self._renamed:
                _sync(self.path)
            with self._lock:
                # Includes blocks that an earlier call renamed before its sync failed.
                self._blocks += self._renamed.values()
                self.num_bytes += sum(block.num_bytes for block in self._renamed.values())
                self._renamed.clear()
            self.accepted_s = time.monotonic()

    def _require_open(self) -> None:
        if self._is_closed:
            raise PenstockError(f"the query has stopped: nothing is stored in {self.path} any more")

    # -- the query's side --

    @property
    def first_number(self) -> int:
        """The number of the oldest block, or of the next one if there is none."""
        with self._lock:
            return self._first

    @property
    def end(self) -> int:
        """The number after the newest block."""
        with self._lock:
            return self._end

    @property
    def _end(self) -> int:
        # Blocks that are renamed but not accepted yet have numbers, too.
        return self.next_number - len(self._renamed)

    @property
    def _first(self) -> int:
        return self._blocks[0].number if self._blocks else self._end

    def continue_at(self, number: int) -> None:
        """Check that the query can continue at the offset of its checkpoint; the next block gets at least that number.

        Numbers are never reused, and a block is deleted only when no offset needs it. Any other offset therefore means
        that the directory was lost, or that another query has used it.

        Raises:
            PenstockError: blocks before the offset were never stored here, or blocks after it were deleted.
        """
        with self._lock:
            first, end = self._first, self.next_number
        if number > end:
            self._lose(
                f"the checkpoint of the query continues at block {number}, and the next block of {self.path} is {end}"
            )
        elif number < first:
            self._lose(
                f"the checkpoint of the query continues at block {number}, and {self.path} begins with block {first}"
            )
        with self._lock:
            self.next_number = max(end, number)

    def _lose(self, reason: str) -> None:
        if self._fails_on_loss:
            raise PenstockError(
                f"{reason}: the checkpoint of the query needs the directory of the option 'blocks' that it was written "
                "with. To continue without the lost blocks, set the option failOnDataLoss=false"
            )
        log.warning("blocks of the query lost", directory=str(self.path), reason=reason)

    def since(self, number: int) -> list[NumberedBlock]:
        """The blocks from a number on, in order."""
        with self._lock:
            return self._blocks[self._position(number) :]

    def between(self, start: int, end: int) -> list[NumberedBlock]:
        """The blocks from ``start`` (inclusive) to ``end`` (exclusive); without the lost ones if loss is no error.

        Raises:
            PenstockError: a block is missing; the message names it.
        """
        with self._lock:
            blocks = self._blocks[self._position(start) : self._position(end)]
        if len(blocks) != end - start:
            present = {block.number for block in blocks}
            missing = next(number for number in range(start, end) if number not in present)
            count = end - start - len(blocks)
            self._lose(
                f"block {missing} of the query is missing in {self.path} ({count} of the blocks {start} to {end - 1})"
            )
        return blocks

    def delete_before(self, number: int) -> None:
        """Delete the blocks below a number, which the query will not read again.

        Runs on one thread at a time, so that a smaller number is never noted after a larger one.
        """
        with self._deleting:
            with self._lock:
                gone = self._blocks[: self._position(number)]
                del self._blocks[: len(gone)]
                self.num_bytes -= sum(block.num_bytes for block in gone)
            if not gone:
                return
            # On a full disk, the note may succeed only after the blocks are deleted.
            noted = self._note_consumed(number)
            for block in gone:
                block.path.unlink(missing_ok=True)
            if not noted:
                self._note_consumed(number)

    def _position(self, number: int) -> int:
        return bisect_left(self._blocks, number, key=lambda block: block.number)

    def open(self, name: str) -> pa.ipc.RecordBatchFileReader:
        """Open a block for the server.

        Raises:
            BlockGoneError: no block has this name.
        """
        block = NumberedBlock.of(self.path / Path(name).name)
        if block is None or block.path.name != name:
            return open_block_file(f"(not the name of a block: {name[:100]!r})")
        return open_block_file(str(block.path), block.checksum)

    # -- the rate, set by another process --

    def read_rate(self) -> float | None:
        """The last rate that ``write_rate`` wrote, records/s; ``None`` for none."""
        with suppress(OSError, ValueError):
            rate = float((self.path / _RATE).read_text())
            return rate if rate > 0 else None
        return None

    def forget_rate(self) -> None:
        """Delete the rate of an earlier run, which may have been another program."""
        with suppress(OSError):
            (self.path / _RATE).unlink(missing_ok=True)

    # -- files --

    def _check(self, receiver: str) -> None:
        names = {entry.name for entry in self.path.iterdir() if not _REMAINS.fullmatch(entry.name)}
        description = self.path / _DESCRIPTION
        # In a directory with a description, ignore the hidden files of other tools, such as snapshots.
        foreign = sorted(name for name in names - _OURS if not name.startswith(".") and not _NAME.fullmatch(name))
        if foreign or (names - {_LOCK} and not description.exists()):
            raise ConfigurationError(
                f"the directory of the option 'blocks', {self.path}, is not empty and not a directory of blocks (it "
                f"contains {(foreign or sorted(names))[0]!r}): name a directory that is new or belongs to this query"
            )
        if not description.exists():
            return
        try:
            fields = json.loads(description.read_text())
            version, owner = fields["format"], fields["receiver"]
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError(
                f"{description} is damaged: it does not say whose blocks these are. Restore it, or name a new directory"
            ) from None
        if version != _FORMAT:
            raise ConfigurationError(
                f"{description} has format version {version!r} and this version of Penstock reads version {_FORMAT}: "
                "run the version of Penstock that wrote it"
            )
        if owner != receiver:
            raise ConfigurationError(
                f"the directory of the option 'blocks', {self.path}, has blocks of the receiver {owner!r}, and the "
                f"query asks for {receiver!r}: name another directory"
            )

    def _describe(self, receiver: str) -> None:
        if not (self.path / _DESCRIPTION).exists():
            data = json.dumps({"format": _FORMAT, "receiver": receiver}).encode()
            Directory.of(str(self.path)).write(_DESCRIPTION, data, sync=self._durable)

    def _sweep(self, consumed: int) -> None:
        """Find the blocks; delete consumed blocks, and blocks that an earlier process did not accept."""
        for path in self.path.iterdir():
            block = NumberedBlock.of(path)
            if _REMAINS.fullmatch(path.name) or (block is not None and block.number < consumed):
                path.unlink(missing_ok=True)
            elif block is not None:
                self._blocks.append(block)
        self._blocks.sort(key=lambda block: block.number)

    def _consumed(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.path / _CONSUMED).read_text())
        return 0

    def _note_consumed(self, number: int) -> bool:
        try:
            with atomic_write(self.path / _CONSUMED, sync=self._durable) as partial:
                partial.write_text(str(number))
        except OSError as error:
            log.warning("consumed blocks not noted", directory=str(self.path), reason=str(error))
            return False
        return True


def write_rate(directory: Path, rate: float) -> None:
    """Set the rate of the receiver of a running query from any process of the driver's host.

    Raises:
        OSError: the directory cannot be written.
    """
    with atomic_write(directory / _RATE) as partial:
        partial.write_text(repr(rate))


def _locked(path: Path) -> IO[str]:
    """Lock a directory for this process.

    Raises:
        ConfigurationError: another process holds the lock.
    """
    file = (path / _LOCK).open("a+")
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                file.close()
                raise
            if time.monotonic() > deadline:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                file.close()
                raise ConfigurationError(
                    f"the directory of the option 'blocks', {path}, is in use by another query (process {owner}): each "
                    "query, and each source of a query, needs a directory of its own"
                ) from None
            time.sleep(_LOCK_POLL_S)
        else:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file


def _sync(directory: Path) -> None:
    """Sync the names of a directory to the disk: one call covers all accepted blocks."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
