"""Conformance suites of the receiver ``file``, for ``penstock plugins check``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from penstock_testing import Capabilities, FileFeeder, ReceiverSuite

_LIMIT = 150_000


class GrowingFeeder(FileFeeder):
    """One file that grows. A position is an offset file."""

    def oversize(self) -> tuple[Any, str]:
        """A line above the limit, which is dropped."""
        return "x" * (_LIMIT + 1), "dropped"

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """An offset file with these offsets."""
        files = [
            {"path": path, "inode": Path(path).stat().st_ino, "offset": offset} for path, offset in position.items()
        ]
        offset_file = self.folder.parent / "offsets.json"
        offset_file.write_text(json.dumps({"files": files}))
        return {"offset_file": str(offset_file)}


class FolderFeeder(GrowingFeeder):
    """A new file for each group of records."""

    def __init__(self) -> None:
        super().__init__(growing=False)


class FileSuite(ReceiverSuite):
    """One file that grows."""

    name = "file"
    feeder = GrowingFeeder
    options: ClassVar = {"poll_interval": 0.01, "max_line_bytes": _LIMIT, "encoding_errors": "refuse"}
    capabilities = Capabilities(arrow=True, replayable=True)


class FolderSuite(ReceiverSuite):
    """New files."""

    name = "file"
    feeder = FolderFeeder
    options: ClassVar = {"poll_interval": 0.01, "max_line_bytes": _LIMIT, "encoding_errors": "refuse"}
    capabilities = Capabilities(arrow=True)
