"""``BlockDirectory``: the numbered blocks of one query on the driver's host.

A block is one Arrow file. ``store`` writes it under a hidden name, ``accept`` renames it to the next number: only then
it exists for the query, whole. The number, rows, bytes and checksum are in its name, so that a restart needs nothing
else. One process at a time owns the directory, by a lock that the system releases when the process ends.

A block is offered to the query when its name is on the disk: otherwise a power failure could take back a block that
the checkpoint names.
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
from penstock.spi import BlockReference, atomic_write, get_logger, open_block_file, write_block_file

log = get_logger("structured")

_FORMAT = 1
_DESCRIPTION, _LOCK, _CONSUMED, _RATE = "penstock-source.json", "lock", "consumed", "rate"
_OURS = frozenset((_DESCRIPTION, _LOCK, _CONSUMED, _RATE))
_NAME = re.compile(r"(\d{12})-(\d+)-(\d+)-([0-9a-f]{8})\.arrow")
# What a process that was killed leaves: stored blocks and files half written.
_REMAINS = re.compile(r"\..+\.(stored|[0-9a-f]{8}\.partial)")
# The source of a query that was just stopped may still flush.
_LOCK_TIMEOUT_S, _LOCK_POLL_S = 10.0, 0.05


@frozen
class NumberedBlock:
    """An accepted block.

    Attributes:
        number: its position in the query's input; offsets are such numbers.
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
        """The block of a file, by its name; ``None`` for another file."""
        match = _NAME.fullmatch(path.name)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3]), int(match[4], 16), path)

    def reference(self, location: str) -> BlockReference:
        """Where tasks find it.

        Args:
            location: ``grpc://host:port`` of the server that has it; empty for none.
        """
        return BlockReference(self.path.name, str(self.path), self.rows, location, checksum=self.checksum)


@frozen
class _Stored:
    """A block that is written under a hidden name."""

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
        path: absolute; created if missing.
        receiver: name of the receiver whose blocks these are.
        durable: whether files and names are on the disk when ``accept`` returns.
        fails_on_loss: whether lost blocks are an error; otherwise a warning is logged.

    Raises:
        ConfigurationError: the directory cannot be used: another process has it, it belongs to another receiver or
            holds foreign files, or it cannot be written.
    """

    def __init__(self, path: Path, receiver: str, *, durable: bool = True, fails_on_loss: bool = True) -> None:
        self.path, self._durable, self._fails_on_loss = path, durable, fails_on_loss
        # One thread accepts blocks at a time, and one deletes them; the third lock guards the attributes below.
        self._accepting, self._deleting, self._lock = threading.Lock(), threading.Lock(), threading.Lock()
        # In order.
        self._blocks: list[NumberedBlock] = []
        # By block id: stored and not accepted, and those of them that are renamed already.
        self._stored: dict[str, _Stored] = {}
        self._renamed: dict[str, NumberedBlock] = {}
        self._is_closed = False
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check(receiver)
            self._lock_file = _locked(path)
            try:
                # Another query may have had a new directory meanwhile.
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
        self.num_bytes = sum(each.num_bytes for each in self._blocks)
        #: When a block was accepted last, monotonic seconds.
        self.accepted_s = time.monotonic()

    def close(self) -> None:
        """Release the directory; from then on nothing is stored or accepted. Idempotent."""
        with self._accepting:
            self._is_closed = True
            self._lock_file.close()

    # -- the receiver's side --

    def store(self, block: Block) -> StoredBlock:
        """Write a block under a hidden name.

        Raises:
            OSError: it cannot be written; no part of it remains.
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
            # The error is that of the write.
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        with self._lock:
            self._stored[block.block_id] = _Stored(path, block.num_records, num_bytes, checksum)
        return block.stored(str(path), num_bytes, checksum)

    def delete(self, block_ids: Iterable[str]) -> None:
        """Delete blocks that were stored and not accepted."""
        for block_id in block_ids:
            with self._lock:
                stored = self._stored.pop(block_id, None)
            if stored is not None:
                stored.path.unlink(missing_ok=True)

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        """Give stored blocks the next numbers. A repeated call skips those that have one.

        Raises:
            OSError: a block cannot be renamed, or the disk refuses its name.
            PenstockError: the directory is closed.
        """
        with self._accepting:
            self._require_open()
            for each in blocks:
                with self._lock:
                    stored, number = self._stored.get(each.block_id), self.next_number
                if stored is None:
                    continue
                block = stored.numbered(number)
                stored.path.rename(block.path)
                with self._lock:
                    del self._stored[each.block_id]
                    self._renamed[each.block_id], self.next_number = block, number + 1
            if self._durable and self._renamed:
                _sync(self.path)
            with self._lock:
                # A retry finds those whose names the disk refused the first time.
                self._blocks += self._renamed.values()
                self.num_bytes += sum(each.num_bytes for each in self._renamed.values())
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
        # Blocks that are renamed and not accepted yet have numbers, too.
        return self.next_number - len(self._renamed)

    @property
    def _first(self) -> int:
        return self._blocks[0].number if self._blocks else self._end

    def continue_at(self, number: int) -> None:
        """Check that the query can continue at an offset of its checkpoint; number the next block no lower.

        Blocks are numbered once, and deleted when no offset needs them. So other numbers mean that the directory was
        lost, or that another query has used it.

        Raises:
            PenstockError: blocks before that offset were never here, or blocks after it are deleted.
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
        """The blocks from ``start`` to before ``end``: all of them, or without the lost ones if that is no error.

        Raises:
            PenstockError: one is missing; names it.
        """
        with self._lock:
            found = self._blocks[self._position(start) : self._position(end)]
        if len(found) != end - start:
            present = {each.number for each in found}
            missing = next(each for each in range(start, end) if each not in present)
            count = end - start - len(found)
            self._lose(
                f"block {missing} of the query is missing in {self.path} ({count} of the blocks {start} to {end - 1})"
            )
        return found

    def delete_before(self, number: int) -> None:
        """Delete the blocks below a number: the query never asks for them again.

        One thread at a time, so that a smaller number is never noted after a larger one.
        """
        with self._deleting:
            with self._lock:
                gone = self._blocks[: self._position(number)]
                del self._blocks[: len(gone)]
                self.num_bytes -= sum(each.num_bytes for each in gone)
            if not gone:
                return
            # A full disk may refuse the note until the blocks are deleted.
            noted = self._note_consumed(number)
            for each in gone:
                each.path.unlink(missing_ok=True)
            if not noted:
                self._note_consumed(number)

    def _position(self, number: int) -> int:
        return bisect_left(self._blocks, number, key=lambda each: each.number)

    def open(self, name: str) -> pa.ipc.RecordBatchFileReader:
        """Open a block for the server.

        Raises:
            BlockGoneError: there is none of this name.
        """
        block = NumberedBlock.of(self.path / Path(name).name)
        if block is None or block.path.name != name:
            return open_block_file(f"(not the name of a block: {name[:100]!r})")
        return open_block_file(str(block.path), block.checksum)

    # -- the rate, set by another process --

    def read_rate(self) -> float | None:
        """The rate that ``write_rate`` wrote last, records/s; ``None`` for none."""
        with suppress(OSError, ValueError):
            rate = float((self.path / _RATE).read_text())
            return rate if rate > 0 else None
        return None

    def forget_rate(self) -> None:
        """Delete the rate: it was set for an earlier run, which may have been another program."""
        with suppress(OSError):
            (self.path / _RATE).unlink(missing_ok=True)

    # -- files --

    def _check(self, receiver: str) -> None:
        names = {each.name for each in self.path.iterdir() if not _REMAINS.fullmatch(each.name)}
        description = self.path / _DESCRIPTION
        # In a directory that is described, hidden files are somebody's tools', such as a snapshot's.
        foreign = sorted(each for each in names - _OURS if not each.startswith(".") and not _NAME.fullmatch(each))
        if foreign or (names - {_LOCK} and not description.exists()):
            raise ConfigurationError(
                f"the directory of the option 'blocks', {self.path}, is not empty and was not made for blocks (it has "
                f"{(foreign or sorted(names))[0]!r}): name a directory that is new or belongs to this query"
            )
        if not description.exists():
            return
        try:
            found = json.loads(description.read_text())
            version, owner = found["format"], found["receiver"]
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
        path = self.path / _DESCRIPTION
        if not path.exists():
            with atomic_write(path, sync=self._durable) as partial:
                partial.write_text(json.dumps({"format": _FORMAT, "receiver": receiver}))

    def _sweep(self, consumed: int) -> None:
        """Find the blocks; delete what an earlier process has consumed, or stored and not accepted."""
        for path in self.path.iterdir():
            block = NumberedBlock.of(path)
            if _REMAINS.fullmatch(path.name) or (block is not None and block.number < consumed):
                path.unlink(missing_ok=True)
            elif block is not None:
                self._blocks.append(block)
        self._blocks.sort(key=lambda each: each.number)

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
        ConfigurationError: another process has it.
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
    """Return when the disk has the names of a directory.

    One call covers all blocks of an acceptance. ``penstock.spi`` syncs only with each file (``atomic_write``).
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
