"""Text lines from bytes, split, checked and decoded by Arrow, and counts of malformed ones: for receivers of text."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

# Malformed input must not become a flood of reports.
_REPORT_INTERVAL_S = 1.0


class ErrorCounts:
    """Counts a receiver's rejected or repaired records by reason, for reports at most once per second."""

    def __init__(self) -> None:
        self._new: Counter[str] = Counter()
        #: All records counted so far, by reason.
        self.counts: Counter[str] = Counter()
        self._reported_s = float("-inf")

    def add(self, reason: str, count: int) -> None:
        """Count records; not thread-safe."""
        if count:
            self._new[reason] += count
            self.counts[reason] += count

    def due_s(self, now_s: float) -> float | None:
        """Seconds until the next report is due; ``None`` when there is nothing new."""
        return max(0.0, self._reported_s + _REPORT_INTERVAL_S - now_s) if self._new else None

    def report(self, now_s: float) -> str:
        """Describe what was counted since the last report."""
        self._reported_s = now_s
        text = ", ".join(f"{reason}: {count} ({self.counts[reason]} in total)" for reason, count in self._new.items())
        self._new.clear()
        return text


@frozen
class LineRules:
    """The rules by which lines are accepted.

    Attributes:
        max_line_bytes: a longer line, without its line ending, is dropped.
        refuse: drop a line that is not UTF-8, instead of replacing the malformed bytes with U+FFFD.
    """

    max_line_bytes: int
    refuse: bool = False

    @property
    def too_long(self) -> str:
        """The fate of ``Lines.too_long`` lines, as text for messages."""
        return f"lines longer than {self.max_line_bytes} bytes, dropped"

    @property
    def not_utf8(self) -> str:
        """The fate of ``Lines.not_utf8`` lines, as text for messages."""
        return f"lines that are not UTF-8, {'dropped' if self.refuse else 'with U+FFFD instead'}"


@frozen
class Lines:
    """The accepted lines, a ``pyarrow.StringArray``, and the numbers of lines too long and not UTF-8."""

    column: Any
    too_long: int = 0
    not_utf8: int = 0


def split_lines(data: bytes | memoryview, rules: LineRules) -> Lines:
    r"""Split whole lines, without the last ``\n``, at every ``\n``; one ``\r`` before it belongs to the line ending."""
    # Not pa.array: that imports pandas, if it is installed, which takes most of a second.
    offsets = pa.py_buffer(array("i", (0, len(data))))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])
    lines = pc.split_pattern(whole, b"\n").values
    with_return = pc.ends_with(lines, b"\r")
    if pc.any(with_return).as_py():
        lines = pc.if_else(with_return, pc.binary_slice(lines, 0, -1), lines)
    too_long = 0
    if len(data) > rules.max_line_bytes:
        accepted = lines.filter(pc.less_equal(pc.binary_length(lines), rules.max_line_bytes))
        too_long = len(lines) - len(accepted)
        lines = accepted
    column, not_utf8 = _decoded(lines, refuse=rules.refuse)
    return Lines(column, too_long, not_utf8)


def _decoded(lines: Any, *, refuse: bool) -> tuple[Any, int]:
    try:
        return lines.cast(pa.string()), 0
    except pa.ArrowInvalid:
        pass  # at least one is not UTF-8
    texts, not_utf8 = [], 0
    for line in lines.to_pylist():
        try:
            texts.append(line.decode())
        except UnicodeDecodeError:
            not_utf8 += 1
            if not refuse:
                texts.append(line.decode(errors="replace"))
    return pa.array(texts, pa.string()), not_utf8
