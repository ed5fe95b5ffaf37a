"""The groups of pairs in which stateful streams carry their states."""

from __future__ import annotations

import pytest

from penstock_state.state_pairs import to_state_pairs


@pytest.mark.parametrize(("num_bytes", "largest"), [(10, 1_024), (10_000, 32), (1 << 20, 1)])
def test_groups_of_pairs_are_small_pickles_however_large_the_states(num_bytes: int, largest: int) -> None:
    # Copies are one object: memory is not what this test measures.
    pairs = [(key, b"x" * num_bytes) for key in range(3)] * (700 if num_bytes < 1 << 20 else 3)
    groups = list(to_state_pairs(1, 0, pairs))
    assert [pair for group in groups for pair in group.pairs] == pairs
    assert max(len(group.pairs) for group in groups) == largest


def test_group_of_few_small_and_many_large_states_is_bounded() -> None:
    pairs = [("small", b""), *[("large", b"x" * (4 << 20))] * 10]
    assert max(len(group.pairs) for group in to_state_pairs(1, 0, pairs)) <= 2
