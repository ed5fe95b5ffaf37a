"""``FileVersion``: a file as a listing showed it."""

from __future__ import annotations

from attrs import frozen


@frozen(order=False)
class FileVersion:
    """A version of a file: with another size or mtime it is another version.

    Attributes:
        path: path in its file system.
        size: bytes.
        mtime_ns: modification time, ns since the epoch.
    """

    path: str
    size: int
    mtime_ns: int
