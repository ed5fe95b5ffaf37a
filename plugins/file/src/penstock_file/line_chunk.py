"""``LineChunk``: whole lines cut from the bytes of a growing file, and where the file goes on behind them.

Owns what a line of a growing file is: what stands between two newlines, without one carriage return at its end. Never
touches a line in Python, as long as all are UTF-8: Arrow splits and validates. Pure; runs on the receiver's thread.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from penstock.helpers import LineRules, split_lines


@frozen
class LineChunk:
    """What was read of a file.

    Attributes:
        column: the lines, a StringArray; ``None`` for none.
        num_bytes: how far the file was read.
        skipping: it was read into a line that is too long, whose rest is to be left out.
        too_long: how many lines were left out for their length.
        not_utf8: how many lines were not UTF-8.
    """

    column: Any
    num_bytes: int
    skipping: bool = False
    too_long: int = 0
    not_utf8: int = 0

    @property
    def num_lines(self) -> int:
        """How many lines there are."""
        return 0 if self.column is None else len(self.column)


def cut(
    data: bytes, rules: LineRules, *, skipping: bool = False, is_end: bool = False, max_lines: int | None = None
) -> LineChunk | None:
    """Cut whole lines from the front.

    Args:
        data: of the file.
        rules: what becomes of lines.
        skipping: it begins inside a line that is left out.
        is_end: nothing will follow: the rest is a line, unless it is empty.
        max_lines: no more.

    Returns:
        What it found; ``None`` when the end of the first line is not there yet, and it may become a line.
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
        # A carriage return does not count but could be the last byte, so that it takes one byte more to be sure.
        if len(data) - begin > rules.max_line_bytes + 1:
            return LineChunk(None, len(data), skipping=True, too_long=1)
        return LineChunk(None, begin) if begin else None
    lines = split_lines(memoryview(data)[begin : end - data.endswith(b"\n", begin, end)], rules)
    return LineChunk(lines.column, end, too_long=lines.too_long, not_utf8=lines.not_utf8)


def _end(data: bytes, begin: int, max_lines: int | None) -> int:
    """Behind the newline of the last line to take; the beginning when there is none."""
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
