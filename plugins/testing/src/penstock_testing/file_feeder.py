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
        self._growing, self._numbers = growing, itertools.count()
        self.folder = Path(self._root.name, "source")
        self.folder.mkdir()
        # The folder's present path, and its path during a cut.
        self._at, self._away = self.folder, Path(self._root.name, "away")

    def options(self) -> Mapping[str, Any]:
        """The folder."""
        return {"path": str(self.folder)}

    def encode(self, record: Any) -> bytes:
        """The text in UTF-8, and the terminator."""
        return str(record).encode() + self.terminator

    def odd_records(self) -> list[Any]:
        """The odd records of ``Feeder`` that fit on one line."""
        return [each for each in super().odd_records() if "\n" not in each and not each.endswith("\r")]

    def put(self, records: Sequence[Any]) -> None:
        """Write records."""
        self._write(b"".join(map(self.encode, records)))

    def put_bytes(self, data: bytes) -> None:
        """Append bytes to the growing file."""
        if not self._growing:
            self._unable("put_bytes")
        self._write(data)

    def put_bad(self) -> None:
        """Write a line that is not UTF-8."""
        self._write(b"\xff\xfe\xfd" + self.terminator)

    def cut(self) -> None:
        """Move the folder away, as if its disk were unmounted."""
        self._at = self.folder.rename(self._away)

    def heal(self) -> None:
        """Move the folder back."""
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
        """Delete the folder."""
        self._root.cleanup()
