"""A growing file gives the same lines, however it is read."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given, settings, strategies as st

from penstock.spi import LineRules
from penstock_file.line_chunk import cut

TOKENS = st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bcd", b"\xc3\xa9", b"\xff", b"12345678"])
DATA = st.lists(TOKENS, max_size=30).map(b"".join)


def expected_lines(data: bytes, rules: LineRules) -> list[str]:
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if not lines[-1]:
        lines.pop()
    lines = [line for line in lines if len(line) <= rules.max_line_bytes]
    if rules.refuse:
        lines = [line for line in lines if line.decode(errors="ignore").encode() == line]
    return [line.decode(errors="replace") for line in lines]


@settings(deadline=None)
@given(
    DATA,
    st.integers(1, 12),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 3)),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_growing_file_gives_each_line_once(
    data: bytes, longest: int, refuse: bool, max_lines: int | None, sizes: list[int]
) -> None:
    rules = LineRules(longest, refuse)
    offset, skipping, too_long = 0, False, 0
    lines: list[str] = []
    for size in [*sorted(min(size, len(data)) for size in sizes), None]:
        while (
            chunk := cut(data[offset:size], rules, skipping=skipping, is_end=False, max_lines=max_lines)
        ) is not None:
            assert chunk.num_bytes > 0
            assert max_lines is None or chunk.num_lines <= max_lines
            offset, skipping = offset + chunk.num_bytes, chunk.skipping
            lines += chunk.column.to_pylist() if chunk.num_lines else []
            too_long += chunk.too_long
        if size is None:
            rest = cut(data[offset:size], rules, skipping=skipping, is_end=True)
            if rest is not None:
                lines += rest.column.to_pylist() if rest.num_lines else []
                assert offset + rest.num_bytes == len(data)
    # A carriage return at the very end may or may not belong to it.
    if data.endswith(b"\r"):
        lines, wanted = lines[:-1], expected_lines(data, rules)
        assert lines == wanted[: len(lines)]
        assert len(wanted) - len(lines) <= 1
    else:
        assert lines == expected_lines(data, rules)


def test_malformed_lines_are_counted() -> None:
    chunk = cut(b"a\ntoo long\n\xff\nb\n", LineRules(3, refuse=True))
    assert chunk is not None
    assert (chunk.column.to_pylist(), chunk.too_long, chunk.not_utf8, chunk.num_bytes) == (["a", "b"], 1, 1, 15)


def test_incomplete_line_is_not_returned() -> None:
    assert cut(b"abc", LineRules(10)) is None
    assert cut(b"", LineRules(10), is_end=True) is None
    chunk = cut(b"abc", LineRules(10), is_end=True)
    assert chunk is not None
    assert chunk.column.to_pylist() == ["abc"]


def test_cutting_does_not_import_pandas() -> None:
    code = """
import sys
from penstock.spi import LineRules
from penstock_file.line_chunk import cut
assert cut(b"a\\r\\nb\\n", LineRules(10)).column.to_pylist() == ["a", "b"]
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
