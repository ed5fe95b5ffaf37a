"""Which blocks make a batch, and how they are shared among its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from penstock_structured.batches import end_of_batch
from penstock_structured.block_directory import NumberedBlock


def blocks(*rows: int, first: int = 0) -> list[NumberedBlock]:
    """Blocks of these rows, ten bytes each row."""
    return [NumberedBlock(first + i, count, 10 * count, 0, Path(f"{i}")) for i, count in enumerate(rows)]


@pytest.mark.parametrize(
    ("limit", "end"),
    [
        pytest.param({}, 4, id="all"),
        pytest.param({"max_rows": 7}, 2, id="rows"),
        pytest.param({"max_rows": 8}, 2, id="rows-exact-would-be-9"),
        pytest.param({"max_rows": 9}, 3, id="rows-exact"),
        pytest.param({"max_rows": 1}, 1, id="the-first-block-is-larger"),
        pytest.param({"max_bytes": 75}, 2, id="bytes"),
        pytest.param({"max_files": 3}, 3, id="files"),
        pytest.param({"min_rows": 10}, 4, id="enough-rows"),
        pytest.param({"min_rows": 11}, 0, id="too-few-rows"),
    ],
)
def test_a_batch_ends_where_its_limit_is_reached(limit: dict[str, int], end: int) -> None:
    assert end_of_batch(blocks(3, 3, 3, 1), 0, **limit) == end


def test_without_blocks_there_is_no_batch() -> None:
    assert end_of_batch([], 7) == 7


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 100))
def test_batches_of_limited_rows_take_every_block_once_in_order(rows: list[int], max_rows: int) -> None:
    everything, start, taken = blocks(*rows, first=5), 5, list[int]()
    while (
        end := end_of_batch([each for each in everything if each.number >= start], start, max_rows=max_rows)
    ) > start:
        batch = [each for each in everything if start <= each.number < end]
        assert len(batch) == 1 or sum(each.rows for each in batch) <= max_rows
        taken += [each.number for each in batch]
        start = end
    assert taken == [each.number for each in everything]
