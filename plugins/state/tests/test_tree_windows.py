"""The nodes of the tree that cover a window."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from penstock_state.tree_windows import cover


@given(st.integers(0, 300), st.integers(0, 300))
@settings(deadline=None, derandomize=True)
def test_tree_cover_is_exact_with_at_most_two_nodes_per_level(begin: int, length: int) -> None:
    nodes = cover(begin, begin + length)
    panes = [pane for level, number in nodes for pane in range(number << level, (number + 1) << level)]
    assert panes == list(range(begin, begin + length))
    levels = [level for level, _ in nodes]
    assert all(levels.count(level) <= 2 for level in levels)


def test_tree_cover_is_minimal() -> None:
    for begin in range(20):
        fewest = {begin: 0}
        for end in range(begin + 1, 40):
            # The last node of a cover ends here, and has a size that divides its end.
            sizes = [1 << level for level in range(6) if end % (1 << level) == 0 and end - (1 << level) >= begin]
            fewest[end] = 1 + min(fewest[end - size] for size in sizes)
            assert len(cover(begin, end)) == fewest[end], (begin, end)
