"""``FollowedFile``: one growing file and the offset up to which it was read.

Its descriptor is open only while the file has unread bytes or may still grow after it left its path. ``read`` returns
a chunk; ``commit`` advances past it once it is stored. Runs on the receiver's thread.
"""

from __future__ import annotations

import os

from penstock.spi import LineRules
from penstock_file.line_chunk import LineChunk, cut
from penstock_file.positions import Head, Position

# Bytes read at a time, unless a line is longer.
_CHUNK = 4 << 20
# With a limit on the lines: minimum number of bytes to read, and bytes per line.
_LEAST = 1 << 16
_LONG_LINE = 512


class FollowedFile:
    """A file that is identified by its inode, not by its name.

    Args:
        position: the offset at which reading resumes.
        device: device of its inode.
    """

    def __init__(self, position: Position, device: int) -> None:
        self.path = position.path
        self.device = device
        self.inode = position.inode
        self.offset = position.offset
        self._skipping = position.skipping
        self._head = position.head
        self._next = (self.offset, self._skipping, self._head)
        self.descriptor: int | None = None
        #: Size and mtime when the file was last read to its end; if they have changed, there may be new bytes.
        self._done: tuple[int, int] | None = None
        self._seen: tuple[int, int] = (0, 0)
        #: The file that had this path before; it is read to its end first.
        self.predecessor: FollowedFile | None = None
        #: Number of times that the file was truncated or rewritten, and therefore read from the beginning.
        self.restarts = 0
        #: When a scan noticed that the file left its path (monotonic seconds); ``None`` while it has not.
        self.left_s: float | None = None

    @property
    def position(self) -> Position:
        """The offset up to which the file was read and stored."""
        return Position(self.path, self.inode, self.offset, self._skipping, self._head)

    @property
    def has_new_bytes(self) -> bool:
        """Whether the file has unread bytes.

        Also true for a new empty file until it is opened, so that its bytes are read even if it is renamed at once.
        """
        return self._done != self._seen

    def see(self, status: os.stat_result) -> None:
        """Note the size and mtime of the file."""
        self._seen = (status.st_size, status.st_mtime_ns)

    def open(self) -> None:
        """Open the file, unless it is open.

        Raises:
            FileNotFoundError: the path leads to another file now.
            OSError: the file cannot be opened.
        """
        if self.descriptor is not None:
            return
        # Non-blocking, because the path may lead to a pipe by now.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            os.close(descriptor)
            raise FileNotFoundError(f"{self.path} is another file now")
        self.descriptor = descriptor

    def close(self) -> None:
        """Close the file; ``open`` opens it again."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def begin_at_end(self, max_line_bytes: int) -> None:
        """Skip to the last newline, so that a line that is just being written is read as a whole."""
        assert self.descriptor is not None
        size = os.fstat(self.descriptor).st_size
        start = max(size - max_line_bytes - 2, 0)
        tail = os.pread(self.descriptor, size - start, start)
        self.offset = start + tail.rfind(b"\n") + 1
        # The offset is inside a line that is too long.
        self._skipping = start > 0 and b"\n" not in tail
        self._head = self._head.grown(self.descriptor, self.offset)

    def read(self, rules: LineRules, max_lines: int | None, *, is_end: bool = False) -> LineChunk | None:
        """Read new lines without advancing.

        Args:
            rules: which lines are accepted.
            max_lines: maximum number of lines; ``None``: no limit.
            is_end: whether nothing will be appended; the remaining bytes are then a line.

        Returns:
            The lines; ``None`` when there are none.
        """
        assert self.descriptor is not None
        self.see(os.fstat(self.descriptor))
        chunk, whole = self._cut(self.descriptor, rules, max_lines, is_end=is_end)
        # Checked after reading, so that a rewrite before or during the read is noticed.
        if not self._is_unchanged(self.descriptor):
            self.offset = 0
            self._skipping = False
            self._head = Head()
            self.restarts += 1
            chunk, whole = self._cut(self.descriptor, rules, max_lines, is_end=is_end)
        if whole:
            self._done = self._seen
        if chunk is not None:
            offset = self.offset + chunk.num_bytes
            self._next = (offset, chunk.skipping, self._head.grown(self.descriptor, offset))
        return chunk

    def commit(self) -> None:
        """Advance past the last chunk, which has been stored."""
        self.offset, self._skipping, self._head = self._next

    def _cut(
        self, descriptor: int, rules: LineRules, max_lines: int | None, *, is_end: bool
    ) -> tuple[LineChunk | None, bool]:
        """Read and cut lines; return them, and whether the file has no more whole lines now."""
        wanted = _CHUNK if max_lines is None else min(_CHUNK, max(_LEAST, max_lines * _LONG_LINE))
        while True:
            data = os.pread(descriptor, wanted, self.offset)
            chunk = cut(data, rules, skipping=self._skipping, is_end=is_end, max_lines=max_lines)
            if chunk is not None or len(data) < wanted:
                break
            wanted *= 2  # a longer line, but not too long yet
        return chunk, chunk is None or (len(data) < wanted and chunk.num_bytes >= data.rfind(b"\n") + 1)

    def _is_unchanged(self, descriptor: int) -> bool:
        return os.fstat(descriptor).st_size >= self.offset and self._head.fits(descriptor)
