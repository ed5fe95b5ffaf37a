"""``LineSplitter``: splits received bytes into lines of text.

What remains at the end of the stream is a line too, unless it is empty.
"""

from __future__ import annotations

from typing import Any

from penstock.helpers import ErrorCounts, LineRules, split_lines
from penstock_socket.receive_buffer import CHUNK_BYTES, ReceiveBuffer


class LineSplitter:
    r"""Bytes in, lines out.

    Args:
        rules: which lines are accepted.
        errors: counts the others.
        chunk: initial buffer size, bytes.
    """

    #: No bytes make such a stream malformed.
    fault: Exception | None = None

    def __init__(self, rules: LineRules, errors: ErrorCounts, chunk: int = CHUNK_BYTES) -> None:
        self._rules, self._errors = rules, errors
        # The longest line, its carriage return, and one byte more that shows a longer line.
        self._buffer = ReceiveBuffer(rules.max_line_bytes + 2, chunk)
        # Bytes without a newline at the front.
        self._searched = 0
        # Inside a line that is too long, whose beginning was dropped.
        self._skipping = False
        self._ended = False

    @property
    def pending(self) -> int:
        """Bytes received and not searched."""
        return self._buffer.filled - self._searched

    @property
    def is_full(self) -> bool:
        """Whether ``take`` must be called before there is more space."""
        return self._buffer.is_full

    def space(self, at_most: int) -> memoryview:
        """Return where to receive into: at least one byte, at most ``at_most``."""
        return self._buffer.space(at_most)

    def advance(self, count: int) -> None:
        """Note that ``count`` bytes were received into the space."""
        self._buffer.advance(count)

    def end(self) -> None:
        """Note the end of the stream: the remaining bytes are a line."""
        self._ended = True

    def take(self) -> Any:
        """Return the whole lines as a StringArray, ``None`` when there are none."""
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
        # The last byte may be a carriage return, which does not count: only one byte more proves the line too long.
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
