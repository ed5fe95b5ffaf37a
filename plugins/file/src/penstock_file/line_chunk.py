"""``LineChunk``: whole lines cut from the bytes of a growing file, and their length in bytes. Pure functions."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from penstock.spi import LineRules, split_lines


@frozen
class LineChunk:
    """Lines read from a file.

    Attributes:
        column: the lines, a StringArray; ``None`` for none.
        num_bytes: bytes consumed.
        skipping: whether they end inside a line that is too long, whose remaining bytes must be skipped.
        too_long: lines dropped for their length.
        not_utf8: lines that were not UTF-8.
    """

    column: Any
    num_bytes: int
    skipping: bool = False
    too_long: int = 0
    not_utf8: int = 0

    @property
    def num_lines(self) -> int:
        """The number of lines."""
        return 0 if self.column is None else len(self.column)


def cut(
    data: bytes, rules: LineRules, *, skipping: bool = False, is_end: bool = False, max_lines: int | None = None
) -> LineChunk | None:
    """Cut whole lines from the front.

    Args:
        data: the next bytes of the file.
        rules: which lines are accepted.
        skipping: whether the data begins inside a line that must be skipped.
        is_end: whether the data is complete; its remaining bytes are then a line, unless there are none.
        max_lines: maximum number of lines; ``None``: no limit.

    Returns:
        The lines; ``None`` when the first line is not complete yet.
    """
    if not data:
        return None
    begin = 0
    if skipping:
        begin = data.find(b"\n") + 1
        if not begin:
            return LineChunk(None, len(data), skipping=not is_end)
    end = _end(data, begin, max_lines)
    if end == begin and is_end and len(data) > begin:
        end = len(data)
    if end == begin:
        # The last byte may be a carriage return, which does not count. One more byte proves that the line is too long.
        if len(data) - begin > rules.max_line_bytes + 1:
            return LineChunk(None, len(data), skipping=True, too_long=1)
        return LineChunk(None, begin) if begin else None
    lines = split_lines(memoryview(data)[begin : end - data.endswith(b"\n", begin, end)], rules)
    return LineChunk(lines.column, end, too_long=lines.too_long, not_utf8=lines.not_utf8)


def _end(data: bytes, begin: int, max_lines: int | None) -> int:
    """The offset after the last line to return; the beginning when there is none."""
    last = data.rfind(b"\n", begin) + 1
    if not last or max_lines is None or max_lines >= last - begin:
        return last or begin
    end = begin
    for _ in range(max_lines):
        following = data.find(b"\n", end) + 1
        if not following:
            break
        end = following
    return end
