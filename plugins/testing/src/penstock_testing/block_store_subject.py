"""``BlockStoreSubject``, the argument of a block store check: the hook ``store`` of a plugin and of the core."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import Block, StoredBlock, hookimpl
from penstock.spi import BlockReference, LocalBlockHandler, Plugins, Token, encode, read_block, records
from penstock_testing.check import fail, fail_raised
from penstock_testing.subject import Subject, encode_a_block

if TYPE_CHECKING:
    from penstock_testing.suites import ConformanceSuite


class HookedStore:
    """A plugin's hook ``store``, called as on an executor: the core's store answers if the plugin does not.

    Args:
        plugin: implements the hook.
        folder: the folder in which the core's store writes.

    Attributes:
        error: raised by the core's store instead of storing; ``None`` stores.
        refused: the number of blocks that the core's store has refused with this error.
    """

    def __init__(self, plugin: object, folder: Path) -> None:
        self.error: Exception | None = None
        self.refused = 0
        self._core = LocalBlockHandler(folder)
        self._manager = Plugins(entry_points=[]).manager
        self._manager.register(plugin)
        if "store" not in {caller.name for caller in self._manager.get_hookcallers(plugin) or ()}:
            fail(
                f"{type(plugin).__name__} does not implement the hook store",
                change="decorate store(self, block) with @hookimpl",
            )
        self._manager.register(self)

    @hookimpl(trylast=True)
    def store(self, block: Block) -> StoredBlock:
        """Store as the core does, after the plugin."""
        if self.error is not None:
            self.refused += 1
            raise self.error
        return self._core.store(block)

    def call(self, block: Block) -> StoredBlock | None:
        """Call the hook."""
        stored: StoredBlock | None = self._manager.hook.store(block=block, configuration={})
        return stored


class BlockStoreSubject(Subject):
    """The block store under test."""

    @classmethod
    def prepare(cls, suite: ConformanceSuite) -> None:
        encode_a_block()

    def open(self) -> HookedStore:
        """A store, closed when the check ends if it has a method ``close``."""
        home = self.folder / "store"
        home.mkdir()
        plugin = self.instance(home)
        if callable(close := getattr(plugin, "close", None)):
            self.on_close(close)
        return HookedStore(plugin, home / "blocks")

    def block(self, number: int, values: Sequence[Any], metadata: dict[str, Any] | None = None) -> Block:
        """A block of stream 0."""
        return Block(f"input-0-0-{number}", 0, len(values), encode(values), metadata)

    def put(self, store: HookedStore, block: Block) -> StoredBlock:
        """Store a block."""
        description = f"{block.block_id}, a block of {block.num_records} records"
        try:
            stored = store.call(block)
        except Exception as error:
            fail_raised("store", error, description)
        if not isinstance(stored, StoredBlock):
            fail(f"store returned {stored!r}: the block is lost", description, change="return a StoredBlock")
        for name in ("block_id", "stream_id", "num_records", "metadata"):
            if getattr(stored, name) != getattr(block, name):
                fail(
                    f"store returned a StoredBlock with {name} {getattr(stored, name)!r}, and the block's is "
                    f"{getattr(block, name)!r}",
                    description,
                )
        return stored

    def read(self, stored: StoredBlock) -> list[Any] | Exception:
        """The records of a block as a task reads them, or the error that reading it raises."""
        reference = BlockReference(
            stored.block_id, stored.path, stored.num_records, "", stored.stream_id, stored.checksum
        )
        try:
            return list(records(read_block(reference, Token("unused"))))
        except Exception as error:
            return error

    def expect(self, stored: StoredBlock, values: Sequence[Any], smallest: str) -> None:
        """Read a block."""
        result = self.read(stored)
        if isinstance(result, Exception):
            fail(f"reading {stored.block_id} raised {type(result).__name__}: {result}", smallest)
        if [(type(value), value) for value in result] != [(type(value), value) for value in values]:
            fail(f"{stored.block_id} reads as {_shown(result)}, and it was stored as {_shown(values)}", smallest)

    @contextmanager
    def full_disk(self, free_bytes: int) -> Iterator[None]:
        """Let no file of this process grow above a size: Python ignores SIGXFSZ, so that a write raises OSError."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _shown(values: Sequence[Any]) -> str:
    return f"{len(values)} records, {repr(list(values[:5]))[:200]}"
