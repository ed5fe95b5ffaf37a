"""``LineSplitter``: splits received bytes into lines of text.

The remaining bytes at the end of the stream are a line too, unless there are none.
"""

from __future__ import annotations

from typing import Any

from penstock.spi import ErrorCounts, LineRules, split_lines
from penstock_socket.receive_buffer import CHUNK_BYTES, ReceiveBuffer
from penstock_socket.splitter import Splitter


class LineSplitter(Splitter):
    """Splits bytes into lines. Any bytes are a valid stream.

    Args:
        rules: which lines are accepted.
        errors: counts the rejected lines.
        chunk: initial buffer size, bytes.
    """

    def __init__(self, rules: LineRules, errors: ErrorCounts, chunk: int = CHUNK_BYTES) -> None:
        # Space for the longest line, its carriage return, and one more byte that proves a line too long.
        super().__init__(ReceiveBuffer(rules.max_line_bytes + 2, chunk))
        self._rules = rules
        self._errors = errors
        # Whether the buffer begins inside a line that is too long and was dropped so far.
        self._skipping = False

    def take(self) -> Any:
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
        # The last byte may be a carriage return, which does not count. One more byte proves that the line is too long.
        if buffer.filled > self._rules.max_line_bytes + 1:
            buffer.drop(buffer.filled)
            self._skipping = True
            self._errors.add(self._rules.too_long, 1)
        self._searched = buffer.filled
        return column

    def _column(self, stop: int) -> Any:
        """Split the first ``stop`` bytes. Arrow copies them, so the buffer can be reused."""
        lines = split_lines(memoryview(self._buffer.data)[:stop], self._rules)
        self._errors.add(self._rules.too_long, lines.too_long)
        self._errors.add(self._rules.not_utf8, lines.not_utf8)
        return lines.column
