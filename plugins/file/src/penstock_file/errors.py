"""The errors of file streams.

Their messages have one line: Spark shows only the last line of an error in a task.
"""

from __future__ import annotations

from penstock import PenstockError


class DirectoryMissingError(PenstockError):
    """The directory does not exist, or not yet."""


class FileReadError(PenstockError):
    """A file of a batch cannot be read, or its bytes are not records."""
