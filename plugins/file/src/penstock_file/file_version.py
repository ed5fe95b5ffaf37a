"""``FileVersion``: the state of a file in a listing."""

from __future__ import annotations

from attrs import frozen


@frozen(order=False)
class FileVersion:
    """A version of a file, identified by its size and mtime.

    Attributes:
        path: path in its file system.
        size: bytes.
        mtime_ns: modification time, ns since the epoch.
    """

    path: str
    size: int
    mtime_ns: int
