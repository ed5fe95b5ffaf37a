"""Conformance suites of the receiver ``file``, for ``penstock plugins check``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from penstock_testing import Capabilities, FileFeeder, ReceiverSuite

_LIMIT = 150_000


class GrowingFeeder(FileFeeder):
    """Appends records to one file. Its positions are offset files."""

    def oversize(self) -> tuple[Any, str]:
        return "x" * (_LIMIT + 1), "dropped"

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        files = [
            {"path": path, "inode": Path(path).stat().st_ino, "offset": offset} for path, offset in position.items()
        ]
        offset_file = self.folder.parent / "offsets.json"
        offset_file.write_text(json.dumps({"files": files}))
        return {"offset_file": str(offset_file)}


class FolderFeeder(GrowingFeeder):
    """Writes each group of records to a new file."""

    def __init__(self) -> None:
        super().__init__(growing=False)


class FileSuite(ReceiverSuite):
    """The receiver ``file`` with one growing file."""

    name = "file"
    feeder = GrowingFeeder
    options: ClassVar = {"poll_interval": 0.01, "max_line_bytes": _LIMIT, "encoding_errors": "refuse"}
    capabilities = Capabilities(arrow=True, replayable=True)


class FolderSuite(ReceiverSuite):
    """The receiver ``file`` with new files in a directory."""

    name = "file"
    feeder = FolderFeeder
    options: ClassVar = {"poll_interval": 0.01, "max_line_bytes": _LIMIT, "encoding_errors": "refuse"}
    capabilities = Capabilities(arrow=True)
