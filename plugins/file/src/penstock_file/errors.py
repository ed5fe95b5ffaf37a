"""The errors of file streams.

Owns the exception types and nothing else. A message is one line: of an error in a task, Spark's users see the last one.
"""

from __future__ import annotations

from penstock import PenstockError


class DirectoryMissingError(PenstockError):
    """There is no directory to list yet."""


class FileReadError(PenstockError):
    """A file that a batch needs cannot be read, or holds what cannot be read as records."""
