"""A disk that loses what was not synced: it records what a program does below a folder, and cuts the power anywhere.

Files and names are separate, as in POSIX: ``fsync`` of a file saves its bytes, and ``fsync`` of a directory its names.
What was not synced may survive in part: any change of a name, and any sectors of a file.
"""

# A Path for each of 75,000 files of images would take longer than the file.
# ruff: noqa: PTH102, PTH106, PTH108, PTH112, PTH123

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen

_SECTOR = 64

#: Paths with their contents, parents first; ``None`` is a directory.
Image = tuple[tuple[str, bytes | None], ...]


def synced_path(descriptor: int) -> Path:
    """The path of an open file, for replacements of ``os.fsync``."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


class Survival(Enum):
    """What survives of everything that was not synced."""

    ALL = "everything: only the process died"
    NOTHING = "nothing"
    DELETIONS = "only deletions of names"
    EMPTY = "all names, of empty files"
    SHORT = "all names, and files up to any byte"
    TORN = "any changes of names, and any sectors of files"


@frozen
class Operation:
    """One change; ``file`` is the number of a file or directory, ``content`` the whole file after the change."""

    kind: str
    path: str
    file: int = -1
    content: bytes = field(default=b"", repr=False)
    target: str = ""


class SimulatedDisk:
    """Everything below ``root``, an empty directory that is synced itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self._files: dict[str, int] = {}
        self._contents: dict[str, bytes] = {}
        self._count = 0
        self._lock = threading.RLock()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the operations of this process; nothing is really synced."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("mkdir", "replace", "unlink", "fsync", "open"):
                patch.setattr(os, name, self._recorded(name, getattr(os, name)))
            yield
            self._observe()

    def mark(self) -> int:
        """The number of operations so far: a cut there is before everything that follows."""
        with self._lock:
            self._observe()
            return len(self.operations)

    def _recorded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                path = self._path(name, arguments[0])
                if path is None:
                    return real(*arguments, **options)
                self._observe()
                if name == "fsync":
                    self._add("sync", path)
                    return None
                result = real(*arguments, **options)
                if name == "mkdir":
                    self._create("mkdir", path)
                elif name == "unlink":
                    self._add("unlink", path)
                    del self._files[path], self._contents[path]
                elif name == "replace":
                    target = str(arguments[1])
                    self.operations.append(Operation("rename", path, self._files[path], target=target))
                    self._files[target] = self._files.pop(path)
                    self._contents[target] = self._contents.pop(path)
                self._observe()
                return result

        return call

    def _path(self, name: str, argument: Any) -> str | None:
        path = synced_path(argument) if name == "fsync" else Path(argument).absolute()
        return str(path) if path.is_relative_to(self.root) else None

    def _add(self, kind: str, path: str) -> None:
        self.operations.append(Operation(kind, path, self._files.get(path, -1)))

    def _create(self, kind: str, path: str) -> None:
        self._files[path] = self._count
        self._count += 1
        self._add(kind, path)

    def _observe(self) -> None:
        """Record new files and new bytes, also those that SQLite and Arrow have written."""
        for folder, _folders, names in os.walk(self.root):
            for path in (f"{folder}/{name}" for name in names):
                if path not in self._files:
                    self._create("create", path)
                    self._contents[path] = b""
                content = Path(path).read_bytes()
                if content != self._contents[path]:
                    self._contents[path] = content
                    self.operations.append(Operation("write", path, self._files[path], content))

    def images(self, choices: Iterable[tuple[Survival, int]]) -> dict[tuple[Survival, Image], int]:
        """What power failures leave, with the number of operations before the latest that leaves exactly this.

        Args:
            choices: what may survive, and the seed of its choices. They are tried after each operation.
        """
        latest: dict[tuple[Survival, Image], int] = {}
        for survival, seed in choices:
            state = _State(str(self.root))
            for count in range(len(self.operations) + 1):
                latest[survival, state.image(survival, random.Random(seed * 1_000_003 + count))] = count
                for operation in self.operations[count : count + 1]:
                    state.apply(operation)
        return latest

    def restore(self, image: Image) -> None:
        """Replace what is below the folder by an image; what is equal stays, which saves time."""
        wanted = dict(image)
        for folder, folders, names in os.walk(self.root, topdown=False):
            for path in (f"{folder}/{name}" for name in names):
                if wanted.get(path) is None:
                    os.unlink(path)
            for path in (f"{folder}/{name}" for name in folders):
                if wanted.get(path, b"") is not None:
                    os.rmdir(path)
        for path, content in image:
            if content is None:
                if not os.path.isdir(path):
                    os.mkdir(path)
            elif _content_of(path) != content:
                with open(path, "wb") as file:
                    file.write(content)


def _content_of(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


@define
class _File:
    synced: bytes = b""
    current: bytes = b""


@define
class _Folder:
    # By name; the changes are (name that appears, its file, name that disappears).
    synced: dict[str, _File | _Folder] = field(factory=dict)
    current: dict[str, _File | _Folder] = field(factory=dict)
    changes: list[tuple[str, Any, str]] = field(factory=list)

    def change(self, appears: str, file: Any, disappears: str = "") -> None:
        self.changes.append((appears, file, disappears))
        _change(self.current, *self.changes[-1])


def _change(names: dict[str, Any], appears: str, file: Any, disappears: str) -> None:
    names.pop(disappears, None)
    if appears:
        names[appears] = file


class _State:
    """The state of a disk after some operations."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._top = _Folder()
        self._folders = {root: self._top}
        self._files: dict[int, _File] = {}

    def apply(self, operation: Operation) -> None:
        home, _slash, name = operation.path.rpartition("/")
        match operation.kind:
            case "mkdir":
                made = self._folders[operation.path] = _Folder()
                self._folders[home].change(name, made)
            case "create":
                file = self._files[operation.file] = _File()
                self._folders[home].change(name, file)
            case "write":
                self._files[operation.file].current = operation.content
            case "unlink":
                self._folders[home].change("", None, name)
            case "rename":
                target = operation.target.rpartition("/")[2]
                self._folders[home].change(target, self._files[operation.file], name)
            case "sync" if operation.path in self._folders:
                folder = self._folders[operation.path]
                folder.synced, folder.changes = dict(folder.current), []
            case "sync" if operation.file >= 0:
                self._files[operation.file].synced = self._files[operation.file].current

    def image(self, survival: Survival, rng: random.Random) -> Image:
        """Choose what survives a power failure now."""
        return tuple(_surviving(self._top, self._root, survival, rng))


def _surviving(
    folder: _Folder, path: str, survival: Survival, rng: random.Random
) -> Iterator[tuple[str, bytes | None]]:
    for name, found in sorted(_names(folder, survival, rng).items()):
        if isinstance(found, _Folder):
            yield f"{path}/{name}", None
            yield from _surviving(found, f"{path}/{name}", survival, rng)
        else:
            yield f"{path}/{name}", _content(found, survival, rng)


def _names(folder: _Folder, survival: Survival, rng: random.Random) -> dict[str, Any]:
    names = dict(folder.synced)
    for appears, file, disappears in folder.changes:
        match survival:
            case Survival.NOTHING:
                survives = False
            case Survival.DELETIONS:
                survives = not appears
            case Survival.TORN:
                survives = rng.random() < 0.5
            case _:
                survives = True
        if survives:
            _change(names, appears, file, disappears)
    return names


def _content(file: _File, survival: Survival, rng: random.Random) -> bytes:
    unsynced = file.current[len(file.synced) :]
    match survival:
        case Survival.ALL:
            return file.current
        case Survival.SHORT:
            return file.synced + unsynced[: rng.randint(0, len(unsynced))]
        case Survival.TORN:
            sectors = (unsynced[at : at + _SECTOR] for at in range(0, len(unsynced), _SECTOR))
            return file.synced + b"".join(sector if rng.random() < 0.5 else bytes(len(sector)) for sector in sectors)
    return file.synced
