"""``SlideWindow`` in one partition compared with dictionaries, over many batches; without Spark."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.helpers.state_partitions import AMPLE, Pairs, by_key, distinct, moved, settled, small_worker  # noqa: F401

from penstock_state.state_pairs import SlideWindow, from_state_pairs, to_state_pairs

pytestmark = pytest.mark.usefixtures("small_worker")


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=3), min_size=1, max_size=12),
    st.integers(1, 3),
    st.sampled_from([AMPLE, AMPLE, AMPLE, 0]),
)
@settled(15)
def test_slide_window_adds_new_panes_and_removes_old_ones(
    panes: list[Pairs], slide: int, memory_limit_mb: float
) -> None:
    window = 5 * slide
    tables = [
        list(to_state_pairs(time_ms, 0, [(key, sum(values)) for key, values in by_key(pane).items()]))
        for time_ms, pane in enumerate(panes)
    ]
    before: list[Any] = []
    for end in range(slide - 1, len(panes), slide):
        old = tables[max(end - slide - window + 1, 0) : max(end - window + 1, 0)] if before else []
        new = tables[end - slide + 1 : end + 1] if before else tables[max(end - window + 1, 0) : end + 1]
        function = SlideWindow(end, end - window, operator.add, operator.sub, lambda pair: pair[1] > 0, memory_limit_mb)
        before = moved(function(0, [*before, *itertools.chain(*old), *itertools.chain(*new)]))
        expected = by_key([pair for pane in panes[max(end - window + 1, 0) : end + 1] for pair in pane])
        assert distinct(from_state_pairs(0, before)) == {key: sum(values) for key, values in expected.items()}
