"""``BlockStore``: the interface that block store checks call; ``HookedBlockStore`` adapts a plugin's hook ``store``.

``BlockStoreKit``, the argument of these checks, opens stores, makes blocks and simulates crashes and full disks.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pluggy
from attrs import evolve, frozen

from penstock import hookspecs
from penstock.blocks import arrow_form
from penstock.blocks.block import Block, BlockReference, StoredBlock
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.wire.token import Token
from penstock.worker.block_reader import read_block
from penstock_testing.check import NotApplicable, fail
from penstock_testing.kit import Kit


class BlockStore(ABC):
    """The interface that the block store checks call. The kit adapts an object with the hook ``store`` to it.

    ``store`` is required. A check that needs another method which is not overridden is not applicable.
    """

    @abstractmethod
    def store(self, block: Block) -> StoredBlock | None:
        """Store a block; return its location once the block is acknowledged."""

    def read(self, stored: StoredBlock) -> list[Any]:
        """The records of a stored block. Unless overridden, the kit reads them as a batch's task does.

        Raises:
            PenstockError: the block does not exist or is damaged.
        """
        reference = BlockReference(
            stored.block_id, stored.path, stored.num_records, "", stored.stream_id, stored.checksum
        )
        return list(arrow_form.records(read_block(reference, Token("unused"))))

    def delete(self, block_ids: Iterable[str]) -> None:
        """Delete blocks. Ids that do not exist are ignored."""
        self._unable("delete")

    def names(self) -> list[str]:
        """The ids of all blocks, in the order of their numbers."""
        self._unable("names")

    def next_number(self) -> int:
        """The number of the next block, for a store that numbers its blocks itself."""
        self._unable("next_number")

    def replay(self, first: int, last: int, at_most: int | None = None) -> list[str]:
        """The ids of the blocks with numbers from ``first`` to ``last``, both included; at most ``at_most`` ids."""
        self._unable("replay")

    def older(self) -> tuple[StoredBlock, list[Any]]:
        """A block that an earlier version of the store wrote, and its records."""
        self._unable("older")

    def close(self) -> None:  # noqa: B027  # optional
        """Release everything."""

    def _unable(self, method: str) -> NoReturn:
        raise NotApplicable(f"{type(self).__name__} does not implement {method}")


class HookedBlockStore(BlockStore):
    """Calls a plugin's hook ``store`` as an executor does: the core's block handler answers if the plugin does not.

    Args:
        plugin: implements the hook.
        folder: the folder in which the core's block handler stores.
    """

    def __init__(self, plugin: object, folder: Path) -> None:
        self._plugin, self._local = plugin, LocalBlockHandler(folder / "blocks")
        self._manager = pluggy.PluginManager(hookspecs.GROUP)
        self._manager.add_hookspecs(hookspecs)
        self._manager.register(plugin)
        if not self._manager.get_hookcallers(plugin):
            fail(f"{type(plugin).__name__} implements no hook", change="decorate store(self, block) with @hookimpl")
        if not isinstance(plugin, LocalBlockHandler):
            self._manager.register(self._local)

    def store(self, block: Block) -> StoredBlock | None:
        """Call the hook."""
        stored: StoredBlock | None = self._manager.hook.store(block=block)
        return stored

    def delete(self, block_ids: Iterable[str]) -> None:
        """Delete from the plugin, if it can, and from the core's block handler."""
        ids = list(block_ids)
        if callable(delete := getattr(self._plugin, "delete", None)):
            delete(ids)
        self._local.delete(ids)

    def close(self) -> None:
        """Close the plugin, if it can be closed."""
        if callable(close := getattr(self._plugin, "close", None)):
            close()


@frozen
class CrashPoint:
    """The files that a process would leave if it were killed at this moment.

    Attributes:
        folder: a copy of the store's folder.
        number: the number of the moment, from 1.
    """

    folder: Path
    number: int


class BlockStoreKit(Kit):
    """The kit of the block store checks."""

    def store(self, folder: Path | None = None) -> BlockStore:
        """Open a store, closed when the check ends.

        Args:
            folder: the store's folder; by default ``home``.
        """
        home = self.home if folder is None else folder
        home.mkdir(parents=True, exist_ok=True)
        made = self.subject.instance(home)
        store = made if isinstance(made, BlockStore) else HookedBlockStore(made, home)
        self.on_close(store.close)
        return store

    @property
    def home(self) -> Path:
        """The folder of the store that ``store`` opens by default."""
        return self.folder / "store"

    def block(self, number: int, records: Sequence[Any], metadata: dict[str, Any] | None = None) -> Block:
        """A block of stream 0."""
        return Block(f"input-0-0-{number}", 0, len(records), arrow_form.encode(records), metadata)

    def put(self, store: BlockStore, number: int, records: Sequence[Any]) -> StoredBlock:
        """Store a block.

        Raises:
            CheckFailure: the store raises, or does not return a ``StoredBlock``.
        """
        try:
            stored = store.store(self.block(number, records))
        except Exception as error:
            fail(f"store raised {type(error).__name__}: {error}", _short(records))
        if not isinstance(stored, StoredBlock):
            fail(f"store returned {stored!r}", _short(records), change="return a StoredBlock")
        return stored

    def read(self, store: BlockStore, stored: StoredBlock) -> list[Any] | Exception:
        """The records of a block, or the error that reading it raises."""
        try:
            return store.read(stored)
        except Exception as error:
            return error

    def moved(self, stored: StoredBlock, folder: Path) -> StoredBlock:
        """The location of a stored block in a copy of the store's folder."""
        return evolve(stored, path=stored.path.replace(str(self.home), str(folder)))

    def files(self, folder: Path | None = None) -> dict[str, int]:
        """The files below a folder with their sizes."""
        home = folder or self.home
        return {str(path.relative_to(home)): path.stat().st_size for path in home.rglob("*") if path.is_file()}

    def copy(self, name: str) -> Path:
        """Copy the store's folder."""
        return Path(shutil.copytree(self.home, self.folder / name))

    def crash_points(self, action: Callable[[], object]) -> list[CrashPoint]:
        """Run an action; copy the store's folder at each moment between two of its writes.

        A trace function compares the folder after each line of Python. A process that is killed at this moment leaves
        these files, since the operating system completes its earlier writes.

        Raises:
            NotApplicable: the folder never changes.
        """
        points: list[CrashPoint] = []
        seen = [self._signature()]

        def trace(_frame: FrameType, _event: str, _argument: Any) -> Any:
            if (now := self._signature()) != seen[-1]:
                seen.append(now)
                points.append(CrashPoint(self.copy(f"crash-{len(points) + 1}"), len(points) + 1))
            return trace

        # Coverage gives each thread a trace function of its own: one that two threads share damages its memory.
        before, before_of_new_threads = sys.gettrace(), threading.gettrace()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            action()
        finally:
            sys.settrace(before)
            threading.settrace(before_of_new_threads)
        if not points:
            raise NotApplicable("the store writes nothing into the folder that make(folder) got")
        return points

    def on_full_disk(self, action: Callable[[], object], free_bytes: int) -> str:
        """Run an action in a forked process in which no file can grow above ``free_bytes``.

        Returns:
            ``stored``, or the class and text of the action's error.
        """
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            outcome = "stored"
            try:
                # Python ignores SIGXFSZ: a write above the limit raises OSError.
                resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
                action()
            except BaseException as error:
                outcome = f"{type(error).__name__}: {error}"
            os.write(writer, json.dumps(outcome).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(writer)
        deadline, text = time.monotonic() + self.deadline_s(10), b""
        while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not (data := os.read(reader, 65536)):
                break
            text += data
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return str(json.loads(text)) if text else "no answer within its deadline"

    def _signature(self) -> list[tuple[str, int, int]]:
        found = []
        for folder, _, names in os.walk(self.home):
            for name in names:
                try:
                    status = os.stat(f"{folder}/{name}")  # noqa: PTH116  # called for each line of code
                except FileNotFoundError:
                    continue
                found.append((f"{folder}/{name}", status.st_size, status.st_mtime_ns))
        return sorted(found)


def _short(records: Sequence[Any]) -> str:
    text = repr(list(records[:5]))
    return f"a block of {len(records)} records, {text[:200]}"
