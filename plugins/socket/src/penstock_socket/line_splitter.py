"""``LineSplitter``: from received bytes to a column of lines.

Owns what a line is: what stands between two newlines, without one carriage return at its end; the rest at the end of
the stream is a line too, unless it is empty. Never touches a line in Python, as long as all are UTF-8: Arrow splits and
validates. Runs on the receiver's thread.
"""

from __future__ import annotations

from typing import Any

from penstock.helpers import LineRules, split_lines
from penstock_socket.error_counts import ErrorCounts
from penstock_socket.receive_buffer import CHUNK_BYTES, ReceiveBuffer


class LineSplitter:
    r"""Bytes in, lines out.

    Args:
        rules: which lines are accepted.
        errors: counts the others.
        chunk: see ReceiveBuffer.
    """

    #: No bytes are wrong in such a stream.
    fault: Exception | None = None

    def __init__(self, rules: LineRules, errors: ErrorCounts, chunk: int = CHUNK_BYTES) -> None:
        self._rules, self._errors = rules, errors
        # The longest line, its carriage return, and one byte by which it shows that it is longer.
        self._buffer = ReceiveBuffer(rules.max_line_bytes + 2, chunk)
        # Up to where there is no newline.
        self._searched = 0
        # Inside a line that is too long, whose beginning is gone.
        self._skipping = False
        self._ended = False

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
        if buffer.filled > self._rules.max_line_bytes + 1:
            buffer.drop(buffer.filled)
            self._skipping = True
            self._errors.add(self._rules.too_long, 1)
        self._searched = buffer.filled
        return column

    def _column(self, stop: int) -> Any:
        """Split the first ``stop`` bytes; Arrow copies them, so the buffer is free again."""
        lines = split_lines(memoryview(self._buffer.data)[:stop], self._rules)
        self._errors.add(self._rules.too_long, lines.too_long)
        self._errors.add(self._rules.not_utf8, lines.not_utf8)
        return lines.column
