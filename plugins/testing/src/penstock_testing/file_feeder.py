"""``FileFeeder``: a folder in which a file grows, or new files appear, for a receiver under test."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock_testing.feeder import Feeder


class FileFeeder(Feeder):
    r"""Writes lines of UTF-8 text to files; override ``encode``, ``sample`` and ``odd_records`` for another format.

    Options: ``path``, the folder.

    Args:
        growing: append to one file; otherwise each ``put`` creates a file, which appears by a rename once it is
            complete.

    Attributes:
        terminator: the bytes after each record.
        folder: holds the files, and nothing else.
    """

    terminator = b"\n"

    def __init__(self, *, growing: bool = True) -> None:
        self._root = tempfile.TemporaryDirectory(prefix="penstock-feeder-")
        self._growing = growing
        self._numbers = itertools.count()
        self.folder = Path(self._root.name, "source")
        self.folder.mkdir()
        # The folder's present path, and its path during a cut.
        self._at = self.folder
        self._away = Path(self._root.name, "away")

    def options(self) -> Mapping[str, Any]:
        return {"path": str(self.folder)}

    def encode(self, record: Any) -> bytes:
        return str(record).encode() + self.terminator

    def odd_records(self) -> list[Any]:
        return [record for record in super().odd_records() if "\n" not in record and not record.endswith("\r")]

    def put(self, records: Sequence[Any]) -> None:
        self._write(b"".join(map(self.encode, records)))

    def put_bytes(self, data: bytes) -> None:
        if not self._growing:
            self.unable("put_bytes")
        self._write(data)

    def put_bad(self) -> None:
        self._write(b"\xff\xfe\xfd" + self.terminator)

    def cut(self) -> None:
        self._at = self.folder.rename(self._away)

    def heal(self) -> None:
        if self._at != self.folder:
            self._at = self._at.rename(self.folder)

    def _write(self, data: bytes) -> None:
        if self._growing:
            with (self._at / "records.txt").open("ab") as file:
                file.write(data)
            return
        unfinished = Path(self._root.name, "unfinished")
        unfinished.write_bytes(data)
        unfinished.rename(self._at / f"records-{next(self._numbers):04}.txt")

    def close(self) -> None:
        self._root.cleanup()
