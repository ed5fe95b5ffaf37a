"""``FollowedFile``: one file that grows, and how far it was read.

Owns its descriptor, which is open only as long as there is something to read or to wait for. Never stores: ``read``
gives a chunk, ``commit`` moves on behind it once it was accepted. Runs on the receiver's thread.
"""

from __future__ import annotations

import os

from penstock.helpers import LineRules
from penstock_file.line_chunk import LineChunk, cut
from penstock_file.positions import Head, Position

# How much of a file is read at a time, unless a line is longer.
_CHUNK = 4 << 20
# With a limit on the lines: so much, or so much a line.
_LEAST = 1 << 16
_LONG_LINE = 512


class FollowedFile:
    """A file, known by its inode whatever its name.

    Args:
        position: where to go on.
        device: on which its inode is.
    """

    def __init__(self, position: Position, device: int) -> None:
        self.path, self.device, self.inode = position.path, device, position.inode
        self.offset, self._skipping, self._head = position.offset, position.skipping, position.head
        self._next = (self.offset, self._skipping, self._head)
        self.descriptor: int | None = None
        #: Size and time when it was last read to its end; another means that there is something to read.
        self._done: tuple[int, int] | None = None
        self._seen: tuple[int, int] = (0, 0)
        #: The file that was at its path before: read to its end first.
        self.predecessor: FollowedFile | None = None
        #: How often it was found not to hold any more what was read of it, and begun anew.
        self.restarts = 0
        #: When its path was found to lead elsewhere, monotonic; ``None`` as long as it is in its place.
        self.left_s: float | None = None

    @property
    def position(self) -> Position:
        """How far it was read."""
        return Position(self.path, self.inode, self.offset, self._skipping, self._head)

    @property
    def behind(self) -> bool:
        """There is something that was not looked at.

        An empty file counts until it was opened: what is written to it is then read even if it is renamed at once.
        """
        return self._done != self._seen

    def see(self, status: os.stat_result) -> None:
        """Take note of its size and time."""
        self._seen = (status.st_size, status.st_mtime_ns)

    def open(self) -> None:
        """Open it, if it is not open.

        Raises:
            FileNotFoundError: its path leads to another file by now.
            OSError: it cannot be opened.
        """
        if self.descriptor is not None:
            return
        # Not blocking: what was a file a moment ago may be a pipe.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            os.close(descriptor)
            raise FileNotFoundError(f"{self.path} is another file by now")
        self.descriptor = descriptor

    def close(self) -> None:
        """Close it; ``open`` opens it again."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def begin_at_end(self, max_line_bytes: int) -> None:
        """Leave out what is there, up to the last newline: the line that is being written is read whole."""
        assert self.descriptor is not None
        size = os.fstat(self.descriptor).st_size
        start = max(size - max_line_bytes - 2, 0)
        tail = os.pread(self.descriptor, size - start, start)
        self.offset = start + tail.rfind(b"\n") + 1
        # A line longer than any that is taken.
        self._skipping = start > 0 and b"\n" not in tail
        self._head = self._head.grown(self.descriptor, self.offset)

    def read(self, rules: LineRules, max_lines: int | None, *, is_end: bool = False) -> LineChunk | None:
        """Read on, without moving on.

        Args:
            rules: what becomes of lines.
            max_lines: no more.
            is_end: nothing will be added: the rest is a line.

        Returns:
            What there is; ``None`` for nothing.
        """
        assert self.descriptor is not None
        self.see(os.fstat(self.descriptor))
        chunk, whole = self._cut(self.descriptor, rules, max_lines, is_end=is_end)
        # After reading: what was written over it before that is seen now.
        if not self._holds_what_was_read(self.descriptor):
            self.offset, self._skipping, self._head = 0, False, Head()
            self.restarts += 1
            chunk, whole = self._cut(self.descriptor, rules, max_lines, is_end=is_end)
        if whole:
            self._done = self._seen
        if chunk is not None:
            offset = self.offset + chunk.num_bytes
            self._next = (offset, chunk.skipping, self._head.grown(self.descriptor, offset))
        return chunk

    def commit(self) -> None:
        """Move on behind what was read: it was accepted. Cannot fail."""
        self.offset, self._skipping, self._head = self._next

    def _cut(
        self, descriptor: int, rules: LineRules, max_lines: int | None, *, is_end: bool
    ) -> tuple[LineChunk | None, bool]:
        """Read and cut; say whether nothing more could be cut from what is there."""
        wanted = _CHUNK if max_lines is None else min(_CHUNK, max(_LEAST, max_lines * _LONG_LINE))
        while True:
            data = os.pread(descriptor, wanted, self.offset)
            chunk = cut(data, rules, skipping=self._skipping, is_end=is_end, max_lines=max_lines)
            if chunk is not None or len(data) < wanted:
                break
            wanted *= 2  # a line longer than that, and not too long yet
        return chunk, chunk is None or (len(data) < wanted and chunk.num_bytes >= data.rfind(b"\n") + 1)

    def _holds_what_was_read(self, descriptor: int) -> bool:
        return os.fstat(descriptor).st_size >= self.offset and self._head.fits(descriptor)
