"""``ClaimedDirectory``: a directory whose files one driver writes and deletes, under its claim.

The numbers in the names of these files begin with that of the claim, so that a file which an earlier owner wrote too
late neither replaces nor outranks a newer one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

from penstock.storage.claim import Claim
from penstock.storage.directory import Appender, Directory, Durability


class FileNumber(NamedTuple):
    """The number in the name of a checkpoint or a segment: that of a later claim is newer. Claim 0 is none."""

    claim: int
    number: int

    def __str__(self) -> str:
        return f"{self.claim:06d}-{self.number:010d}" if self.claim else f"{self.number:010d}"

    @classmethod
    def among(cls, kind: str, names: Iterable[str]) -> list[FileNumber]:
        """The numbers of the files of a kind, oldest first; other files are ignored."""
        matches = (re.fullmatch(rf"{kind}-(?:(\d{{6,}})-)?(\d{{10}})", name) for name in names)
        return sorted(cls(int(match[1] or 0), int(match[2])) for match in matches if match)


class ClaimedDirectory(Directory):
    """A directory that is changed only while a claim on it is held."""

    def __init__(self, directory: Directory, claim: Claim) -> None:
        self._directory = directory
        self._claim = claim
        self.can_append = directory.can_append
        self.claim_number = claim.number

    def location(self, name: str = "") -> str:
        return self._directory.location(name)

    def child(self, name: str) -> ClaimedDirectory:
        return ClaimedDirectory(self._directory.child(name), self._claim)

    def all_names(self) -> list[str]:
        return self._directory.all_names()

    def changed_s(self) -> dict[str, float]:
        return self._directory.changed_s()

    def read(self, name: str) -> bytes:
        return self._directory.read(name)

    def copy_to(self, name: str, path: Path) -> None:
        self._directory.copy_to(name, path)

    def sync(self, known: Collection[str] = ()) -> set[str]:
        return self._directory.sync(known)

    @contextmanager
    def create(self, name: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        with ExitStack() as until_replaced, self._directory.create(name, sync=sync) as file:
            yield file
            until_replaced.enter_context(self._claim.held())

    def delete(self, name: str) -> bool:
        with self._claim.held(deletes=True):
            return self._directory.delete(name)

    def move(self, name: str, folder: str) -> bool:
        with self._claim.held(deletes=True):
            return self._directory.move(name, folder)

    def append(self, name: str) -> Appender:
        # A new file: nobody acts on it before its first commit.
        return _ClaimedAppender(self._directory.append(name), self._claim, closes=not self.can_append)


class _ClaimedAppender(Appender):
    """Commits while the claim is held. A remote file is committed when it is closed."""

    def __init__(self, appender: Appender, claim: Claim, *, closes: bool) -> None:
        self._appender = appender
        self._claim = claim
        self._closes = closes

    def write(self, data: bytes) -> None:
        self._appender.write(data)

    def commit(self, durability: Durability = Durability.FLUSH) -> None:
        with nullcontext() if self._closes else self._claim.held():
            self._appender.commit(durability)

    def close(self) -> None:
        with self._claim.held() if self._closes else nullcontext():
            self._appender.close()
