"""``LineSplitter``: from received bytes to a column of lines.

Owns what a line is: what stands between two newlines, without one carriage return at its end; the rest at the end of
the stream is a line too, unless it is empty. Never touches a line in Python, as long as all are UTF-8: Arrow splits and
validates. Runs on the receiver's thread.
"""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock_socket.receive_buffer import CHUNK_BYTES, ReceiveBuffer
from penstock_socket.tally import Tally


class LineSplitter:
    r"""Bytes in, lines out.

    Args:
        max_line_bytes: a longer line, without its newline and carriage return, is dropped and counted.
        refuse: drop lines that are not UTF-8, instead of putting U+FFFD where they are not; both are counted.
        tally: where it counts.
        chunk: see ReceiveBuffer.
    """

    #: No bytes are wrong in such a stream.
    fault: Exception | None = None

    def __init__(self, max_line_bytes: int, refuse: bool, tally: Tally, chunk: int = CHUNK_BYTES) -> None:
        self._max_line_bytes, self._refuse, self._tally = max_line_bytes, refuse, tally
        # The longest line, its carriage return, and one byte by which it shows that it is longer.
        self._buffer = ReceiveBuffer(max_line_bytes + 2, chunk)
        # Up to where there is no newline.
        self._searched = 0
        # Inside a line that is too long, whose beginning is gone.
        self._skipping = False
        self._ended = False
        self._too_long = f"lines longer than {max_line_bytes} bytes, dropped"
        self._not_utf8 = f"lines that are not UTF-8, {'dropped' if refuse else 'with U+FFFD instead'}"

    @property
    def pending(self) -> int:
        """Bytes received and not looked at."""
        return self._buffer.filled - self._searched

    @property
    def is_full(self) -> bool:
        """``take`` must be called before there is more space."""
        return self._buffer.is_full

    def space(self, at_most: int) -> memoryview:
        """Where to receive into: at least one byte, at most so many."""
        return self._buffer.space(at_most)

    def advance(self, count: int) -> None:
        """So many bytes were received into the space."""
        self._buffer.advance(count)

    def end(self) -> None:
        """The stream has ended: what is left is a line."""
        self._ended = True

    def take(self) -> Any:
        """The lines that are whole, as a StringArray, ``None`` when there are none."""
        buffer = self._buffer
        if self._skipping:
            newline = buffer.data.find(b"\n", 0, buffer.filled)
            self._skipping = newline < 0
            buffer.drop(buffer.filled if self._skipping else newline + 1)
        newline = buffer.data.rfind(b"\n", self._searched, buffer.filled)
        column = None
        if self._ended and newline < buffer.filled - 1:
            column = self._column(buffer.filled)
            buffer.drop(buffer.filled)
        elif newline >= 0:
            column = self._column(newline)
            buffer.drop(newline + 1)
        # A carriage return does not count but could be the last byte, so that it takes one byte more to be sure.
        if buffer.filled > self._max_line_bytes + 1:
            buffer.drop(buffer.filled)
            self._skipping = True
            self._tally.add(self._too_long, 1)
        self._searched = buffer.filled
        return column

    def _column(self, stop: int) -> Any:
        """Split the first ``stop`` bytes."""
        text = pa.py_buffer(memoryview(self._buffer.data)[:stop])
        # Not made by pa.array: that imports pandas, where it is installed, and takes most of a second for it.
        offsets = pa.py_buffer(array("i", (0, stop)))
        whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, text])
        # The kernel copies: nothing of the column is left in the buffer.
        lines = pc.split_pattern(whole, b"\n").values
        with_return = pc.ends_with(lines, b"\r")
        if pc.any(with_return).as_py():
            lines = pc.if_else(with_return, pc.binary_slice(lines, 0, -1), lines)
        if stop > self._max_line_bytes:
            kept = lines.filter(pc.less_equal(pc.binary_length(lines), self._max_line_bytes))
            self._tally.add(self._too_long, len(lines) - len(kept))
            lines = kept
        return self._decoded(lines)

    def _decoded(self, lines: Any) -> Any:
        try:
            return lines.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # at least one is not UTF-8
        texts, not_utf8 = [], 0
        for line in lines.to_pylist():
            try:
                texts.append(line.decode())
            except UnicodeDecodeError:
                not_utf8 += 1
                if not self._refuse:
                    texts.append(line.decode(errors="replace"))
        self._tally.add(self._not_utf8, not_utf8)
        return pa.array(texts, pa.string())
