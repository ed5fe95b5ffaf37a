"""Reference block stores and the mutants of the block store checks BS-01 to BS-22."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import attrs
from tests.mutants.mutant import Mutant

from penstock import Block, PenstockError, StoredBlock, hookimpl
from penstock.blocks.received_block_handler import LocalBlockHandler, WriteAheadLogBlockHandler
from penstock_testing import BlockStore, Capabilities

ALL = Capabilities(durable=True, verified=True, located=True)


def make_local(folder: Path) -> LocalBlockHandler:
    """The core's own store, as a plugin."""
    return LocalBlockHandler(folder / "blocks")


def make_logged(folder: Path) -> WriteAheadLogBlockHandler:
    """The receiver write-ahead log, as a plugin."""
    return WriteAheadLogBlockHandler(str(folder / "0"), "fsync")


class FileStore(BlockStore):
    """The reference: the receiver write-ahead log, with numbers, a listing and replay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = WriteAheadLogBlockHandler(str(folder / "0"), "fsync")
        self._lock = threading.Lock()

    def store(self, block: Block) -> StoredBlock | None:
        stored = self.log.store(block)
        with self._lock:
            highest = max(self.next_number() - 1, number_of(block.block_id))
            (self.folder / "highest").write_text(str(highest))
        return stored

    def delete(self, block_ids: Iterable[str]) -> None:
        self.log.delete(block_ids)

    def names(self) -> list[str]:
        found = [path.stem for path in (self.folder / "0").glob("*.arrow")]
        return sorted(found, key=number_of)

    def next_number(self) -> int:
        try:
            return int((self.folder / "highest").read_text()) + 1
        except (FileNotFoundError, ValueError):
            return 0

    def replay(self, first: int, last: int, at_most: int | None = None) -> list[str]:
        return [name for name in self.names() if first <= number_of(name) <= last][:at_most]

    def older(self) -> tuple[StoredBlock, list[Any]]:
        stored = self.log.store(Block("input-0-0-77", 0, 1, _TABLE))
        return stored, ["old"]


class Observes:
    """A plugin that wraps the core's store and only observes: the common kind."""

    def __init__(self, _folder: Path) -> None:
        self.seen = 0

    @hookimpl(wrapper=True)
    def store(self, block: Block) -> Any:
        self.seen += block.num_records
        return (yield)


def number_of(block_id: str) -> int:
    return int(block_id.rpartition("-")[2])


def _table(records: list[Any]) -> Any:
    from penstock.blocks import arrow_form

    return arrow_form.encode(records)


_TABLE = _table(["old"])


class ChangesRecords(FileStore):
    """Drops NUL characters."""

    def read(self, stored: StoredBlock) -> list[Any]:
        return [each.replace("\0", "") if isinstance(each, str) else each for each in super().read(stored)]


class AnswersNothingMissing(FileStore):
    """Reads a missing block as no records."""

    def read(self, stored: StoredBlock) -> list[Any]:
        return super().read(stored) if Path(stored.path).exists() else []


class WritesInPlace(FileStore):
    """Writes the file under its final name, in two writes."""

    def store(self, block: Block) -> StoredBlock | None:
        stored = super().store(block)
        assert stored is not None
        path = Path(stored.path)
        data = path.read_bytes()
        path.unlink()
        with path.open("wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            file.write(data[len(data) // 2 :])
        return attrs.evolve(stored, checksum=None)


class NeverSyncs(FileStore):
    """Declares that it is durable and calls no fsync."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = WriteAheadLogBlockHandler(str(folder / "0"), "flush")


class KeepsFirst(FileStore):
    """Acknowledges a second block under an id and keeps the first."""

    def store(self, block: Block) -> StoredBlock | None:
        path = self.folder / "0" / f"{block.block_id}.arrow"
        if path.exists():
            return block.stored(str(path), path.stat().st_size)
        return super().store(block)


class RaisesOnMissing(FileStore):
    """Raises when a block to delete does not exist."""

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            (self.folder / "0" / f"{block_id}.arrow").unlink()


class FollowsPaths(FileStore):
    """Deletes whatever path an id leads to."""

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            (self.folder / "0" / f"{block_id}.arrow").unlink(missing_ok=True)
            (self.folder / f"{block_id}.arrow").unlink(missing_ok=True)


class ListsByName(FileStore):
    """Lists in the order of names."""

    def names(self) -> list[str]:
        return sorted(super().names())

    def replay(self, first: int, last: int, at_most: int | None = None) -> list[str]:
        return [name for name in super().names() if first <= number_of(name) <= last][:at_most]


class DeletesByPrefix(FileStore):
    """Deletes every block whose id begins with the id."""

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            self.log.delete([block_id])
            if block_id.endswith("-1"):
                self.log.delete([name for name in self.names() if name.startswith(block_id)])


class CountsFiles(FileStore):
    """Numbers blocks by how many there are."""

    def next_number(self) -> int:
        return len(list((self.folder / "0").glob("*.arrow")))


class ReadsWhatItCan(FileStore):
    """Reads a damaged block as its first record."""

    def read(self, stored: StoredBlock) -> list[Any]:
        try:
            return super().read(stored)
        except PenstockError as error:
            if "damaged" in str(error):
                return ["a"]
            raise


class SkipsChecksum(FileStore):
    """Reads without verifying the checksum."""

    def read(self, stored: StoredBlock) -> list[Any]:
        return super().read(attrs.evolve(stored, checksum=None))


class RefusesEmpty(FileStore):
    """Refuses a block without records."""

    def store(self, block: Block) -> StoredBlock | None:
        if not block.num_records:
            raise ValueError("nothing to store")
        return super().store(block)


class SharesBuffer(FileStore):
    """All threads write through one attribute."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._first_two, self._meeting = iter(range(2)), threading.Barrier(2)

    def store(self, block: Block) -> StoredBlock | None:
        self.current = block
        # The first two threads meet between the write and the read of the attribute.
        is_among_many = not threading.current_thread().name.startswith("penstock kit")
        if is_among_many and next(self._first_two, None) is not None:
            self._meeting.wait(60)
        return super().store(self.current)


class TouchesOthers(FileStore):
    """Moves all other blocks aside while it stores one."""

    def store(self, block: Block) -> StoredBlock | None:
        home, aside = self.folder / "0", self.folder / "aside"
        if home.exists():
            home.rename(aside)
        stored = super().store(block)
        if aside.exists():
            for path in aside.iterdir():
                if not (home / path.name).exists():
                    path.rename(home / path.name)
            for path in aside.iterdir():
                path.unlink()
            aside.rmdir()
        return stored


class IgnoresFullDisk(FileStore):
    """Acknowledges what could not be written."""

    def store(self, block: Block) -> StoredBlock | None:
        try:
            return super().store(block)
        except OSError:
            path = self.folder / "0" / f"{block.block_id}.arrow"
            path.write_bytes(b"")
            return block.stored(str(path), 0)


class RelativePath(FileStore):
    """Answers with a relative path."""

    def store(self, block: Block) -> StoredBlock | None:
        stored = super().store(block)
        assert stored is not None
        return attrs.evolve(stored, path=os.path.relpath(stored.path))

    def read(self, stored: StoredBlock) -> list[Any]:
        return super().read(attrs.evolve(stored, path=str(Path(stored.path).resolve())))


class KeepsBlocks(FileStore):
    """Keeps every block in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: list[Block] = []

    def store(self, block: Block) -> StoredBlock | None:
        self.kept.append(block)
        return super().store(block)


class LeavesOpen(FileStore):
    """Leaves a file open."""

    left: ClassVar[list[Any]] = []

    def store(self, block: Block) -> StoredBlock | None:
        self.left.append((self.folder / "open").open("w"))
        return super().store(block)


class Prints(FileStore):
    """Prints the path of each block."""

    def store(self, block: Block) -> StoredBlock | None:
        print(self.folder, block.block_id)
        return super().store(block)


class PrintsWarnings(FileStore):
    """Prints the path of each block on standard error."""

    def store(self, block: Block) -> StoredBlock | None:
        print("stores", block.block_id, file=sys.stderr)
        return super().store(block)


class ReplacesMetadata(FileStore):
    """Answers with metadata as text."""

    def store(self, block: Block) -> StoredBlock | None:
        stored = super().store(block)
        assert stored is not None
        if stored.metadata is None or "offset" in stored.metadata:
            return stored
        return attrs.evolve(stored, metadata={"value": str(stored.metadata["value"])})


class SharesFolder(FileStore):
    """Stores the blocks of all applications in one folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if folder.name in {"one", "two"}:
            self.log = WriteAheadLogBlockHandler(str(folder.parent / "shared"), "fsync")


class ForgotOldFormat(FileStore):
    """Reads an old block as nothing."""

    def read(self, stored: StoredBlock) -> list[Any]:
        return [] if stored.block_id.endswith("-77") else super().read(stored)


class ExcludesLast(FileStore):
    """Leaves the upper bound out of a replay."""

    def replay(self, first: int, last: int, at_most: int | None = None) -> list[str]:
        return super().replay(first, last - 1, at_most)


def _mutant(
    check: str, words: str, make: Any, *also: str, because: str = "", capabilities: Capabilities = ALL
) -> Mutant:
    return Mutant(
        check=check,
        words=words,
        kind="block-store",
        make=make,
        also=also,
        because=because,
        capabilities=capabilities,
    )


MUTANTS = [
    _mutant("BS-01", "the block reads as ['', 'text', ''", ChangesRecords),
    _mutant("BS-02", "gave []", AnswersNothingMissing, "BS-03", "BS-06", because="both read missing blocks"),
    _mutant("BS-03", "the interrupted block reads as", WritesInPlace, capabilities=attrs.evolve(ALL, verified=False)),
    _mutant("BS-04", "without a call of fsync", NeverSyncs),
    _mutant("BS-05", "after another block was stored with the same id", KeepsFirst),
    _mutant(
        "BS-06", "delete raised FileNotFoundError", RaisesOnMissing, "BS-08", because="it deletes unknown blocks, too"
    ),
    _mutant("BS-06", "removed a file outside", FollowsPaths),
    _mutant("BS-07", "the listing is", ListsByName),
    _mutant("BS-08", "block 10 reads as", DeletesByPrefix),
    _mutant("BS-09", "the next number is", CountsFiles),
    _mutant("BS-10", "the truncated block reads as", ReadsWhatItCan, "BS-11", because="a flipped bit is damage, too"),
    _mutant("BS-11", "the block with a flipped bit reads as", SkipsChecksum),
    _mutant("BS-12", "store raised ValueError: nothing to store", RefusesEmpty),
    _mutant("BS-13", "reads as other records", SharesBuffer),
    _mutant(
        "BS-14",
        "the block reads as",
        TouchesOthers,
        "BS-03",
        "BS-13",
        "BS-15",
        because="after a kill, a failed store or beside another store the moved blocks are missing",
    ),
    _mutant("BS-15", "the store acknowledged a block that did not fit", IgnoresFullDisk),
    _mutant("BS-16", "no file is at", RelativePath),
    _mutant("BS-17", "50 of 50 blocks are in memory", KeepsBlocks),
    _mutant("BS-18", "store/open, is open", LeavesOpen),
    _mutant("BS-18", "' was printed to sys.stdout", Prints),
    _mutant("BS-18", "' was printed to sys.stderr", PrintsWarnings),
    _mutant("BS-19", "store returned the metadata", ReplacesMetadata),
    _mutant("BS-20", "two stores of the same block id read", SharesFolder),
    _mutant("BS-21", "the block of an earlier version reads as []", ForgotOldFormat),
    _mutant("BS-22", "replay returned", ExcludesLast),
]
