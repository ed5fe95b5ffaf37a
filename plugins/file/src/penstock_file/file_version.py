"""``FileVersion``: a file as it was when it was seen.

Owns nothing but the three facts by which a version is known.
"""

from __future__ import annotations

from attrs import frozen


@frozen(order=False)
class FileVersion:
    """A version of a file: another size or another time is another version.

    Attributes:
        path: as the file system names it.
        size: in bytes.
        mtime_ns: when it was modified, as the file system says.
    """

    path: str
    size: int
    mtime_ns: int
