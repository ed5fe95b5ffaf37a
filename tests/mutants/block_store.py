"""Reference block stores and the mutants of the block store checks BS-01 to BS-08."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar

import attrs
from tests.mutants.mutant import Mutant

from penstock import Block, StoredBlock, hookimpl
from penstock.spi import LocalBlockHandler, encode


class Observes:
    """The reference: a plugin that wraps the core's store and only observes, the common kind."""

    def __init__(self, _folder: Path) -> None:
        self.records = 0

    @hookimpl(wrapper=True)
    def store(self, block: Block) -> Generator[None, StoredBlock, StoredBlock]:
        stored = yield
        self.records += stored.num_records
        return self.answer(block, stored)

    def answer(self, _block: Block, stored: StoredBlock) -> StoredBlock:
        """The answer to the executor."""
        return stored


class Stores:
    """The other reference: a plugin that stores by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handler = LocalBlockHandler(folder)

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        return self.handler.store(block)


class LosesEveryFifth(Observes):
    """Deletes the file of every fifth block, and acknowledges the block."""

    def answer(self, block: Block, stored: StoredBlock) -> StoredBlock:
        if block.block_id.endswith(("4", "9")):
            Path(stored.path).unlink()
        return stored


class AnswersNothing(Stores):
    """Forgets to return an answer for blocks with metadata."""

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        if block.metadata is not None:
            # Any other answer ends the call of the hook: with None, the core would store.
            return ()  # type: ignore[return-value]  # the defect
        return super().store(block)


class Repeats(Observes):
    """Answers every second block with the file of the one before."""

    before: StoredBlock | None = None

    def answer(self, _block: Block, stored: StoredBlock) -> StoredBlock:
        before, self.before = self.before, stored
        if before is None:
            return stored
        self.before = None
        return attrs.evolve(stored, path=before.path, num_bytes=before.num_bytes)


class Swaps(Observes):
    """Answers with the block before."""

    before: StoredBlock | None = None

    def answer(self, _block: Block, stored: StoredBlock) -> StoredBlock:
        before, self.before = self.before, stored
        return before or stored


class ChangesRecords(Stores):
    """Stores texts without NUL characters."""

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        values = [value.replace("\0", "") if isinstance(value, str) else value for value in block.records()]
        return self.handler.store(attrs.evolve(block, table=encode(values)))


class Miscounts(Observes):
    """Reports one record too many."""

    def answer(self, _block: Block, stored: StoredBlock) -> StoredBlock:
        return attrs.evolve(stored, num_records=stored.num_records + 1)


class ReplacesMetadata(Observes):
    """Answers with metadata as text."""

    def answer(self, _block: Block, stored: StoredBlock) -> StoredBlock:
        return attrs.evolve(stored, metadata=stored.metadata and {"value": str(stored.metadata)})


class KeepsFirst(Stores):
    """Acknowledges a second block under an id and keeps the first."""

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        path = self.folder / f"{block.block_id}.arrow"
        if path.exists():
            return block.stored(str(path), path.stat().st_size)
        return super().store(block)


class SwallowsErrors(Observes):
    """Acknowledges what could not be written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    @hookimpl(wrapper=True)
    def store(self, block: Block) -> Generator[None, StoredBlock, StoredBlock]:
        try:
            return (yield)
        except OSError:
            return block.stored(str(self.folder / "lost"), 0)


class IgnoresFullDisk(Stores):
    """Acknowledges what did not fit on the disk."""

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        try:
            return super().store(block)
        except OSError:
            return block.stored(str(self.folder / f"{block.block_id}.arrow"), 0)


class GivesUp(Stores):
    """Stores nothing more after an error."""

    has_failed = False

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        try:
            if self.has_failed:
                raise RuntimeError("an earlier block could not be stored")
            return super().store(block)
        except OSError:
            self.has_failed = True
            raise


class SharesBuffer(Stores):
    """All threads write through one attribute."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._first_two = iter(range(2))
        self._meeting = threading.Barrier(2)

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        self.current = block
        # The first two threads meet between the write and the read of the attribute.
        if threading.current_thread() is not threading.main_thread() and next(self._first_two, None) is not None:
            self._meeting.wait(60)
        return super().store(self.current)


class RefusesEmpty(Stores):
    """Refuses a block without records."""

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        if not block.num_records:
            raise ValueError("nothing to store")
        return super().store(block)


class RelativePath(Observes):
    """Answers with a relative path."""

    def answer(self, _block: Block, stored: StoredBlock) -> StoredBlock:
        return attrs.evolve(stored, path=os.path.relpath(stored.path))


class KeepsBlocks(Observes):
    """Keeps every block in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.blocks: list[Block] = []

    def answer(self, block: Block, stored: StoredBlock) -> StoredBlock:
        self.blocks.append(block)
        return stored


class LeavesOpen(Stores):
    """Leaves a file open."""

    left: ClassVar[list[Any]] = []

    @hookimpl
    def store(self, block: Block) -> StoredBlock | None:
        self.left.append((self.folder / "open").open("w"))
        return super().store(block)


def _mutant(check: str, words: str, make: Any, *also: str, because: str = "") -> Mutant:
    return Mutant(check=check, words=words, kind="block-store", make=make, also=also, because=because)


MUTANTS = [
    _mutant("BS-01", "reading input-0-0-29 raised BlockGoneError", LosesEveryFifth, "BS-04", because="it stores many"),
    _mutant("BS-01", "store returned (): the block is lost", AnswersNothing),
    _mutant(
        "BS-01",
        "input-0-0-29 reads as",
        Repeats,
        "BS-03",
        "BS-04",
        "BS-05",
        because="each of them stores more than one block",
    ),
    _mutant(
        "BS-01",
        "with block_id 'input-0-0-0', and the block's is 'input-0-0-1'",
        Swaps,
        "BS-02",
        "BS-03",
        "BS-04",
        "BS-05",
        because="each of them stores more than one block",
    ),
    _mutant("BS-01", "input-0-0-24 reads as", ChangesRecords),
    _mutant(
        "BS-01",
        "with num_records 5, and the block's is 4",
        Miscounts,
        "BS-02",
        "BS-03",
        "BS-04",
        "BS-05",
        "BS-06",
        "BS-08",
        because="every answer is wrong",
    ),
    _mutant("BS-01", "with metadata {'value':", ReplacesMetadata),
    _mutant("BS-02", "reads as 1 records, ['first'], and it was stored as 2 records", KeepsFirst),
    _mutant("BS-03", "the store could not write the block, and returned StoredBlock(", SwallowsErrors),
    _mutant("BS-03", "the store could not write the block, and returned StoredBlock(", IgnoresFullDisk),
    _mutant("BS-03", "store raised RuntimeError: an earlier block could not be stored", GivesUp),
    _mutant("BS-04", "with block_id", SharesBuffer),
    _mutant("BS-05", "store raised ValueError: nothing to store", RefusesEmpty),
    _mutant("BS-06", "no file is at", RelativePath),
    _mutant("BS-07", "50 of 50 blocks are in memory", KeepsBlocks),
    _mutant("BS-08", "store/open, is open", LeavesOpen),
]
