"""The receiver ``file`` passes the conformance checks, with one growing file and with new files."""

from __future__ import annotations

from penstock_file.conformance import FileSuite, FolderSuite


class TestFile(FileSuite):
    pass


class TestFolder(FolderSuite):
    pass
