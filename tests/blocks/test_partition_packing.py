"""``pack`` puts every part of a batch into one partition, in order and within the maximum."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest
from hypothesis import given, strategies as st

from penstock.spi import Packable, pack

PARTS = st.lists(
    st.builds(Packable, st.integers(), st.integers(0, 50), st.sampled_from(["a", "b", ""]), st.integers(0, 3)),
    max_size=30,
)


@given(PARTS, st.integers(0, 200), st.integers(0, 100))
def test_every_part_is_in_one_partition_in_order(parts: list[Packable[int]], most: int, least: int) -> None:
    partitions = pack(parts, max_bytes=most, min_bytes=least)
    assert list(chain(*partitions)) == [part.value for part in parts]
    assert all(partitions)


@given(PARTS, st.integers(0, 200), st.integers(0, 100))
def test_a_partition_ends_only_where_it_must(parts: list[Packable[int]], most: int, least: int) -> None:
    whole = [Packable(part, part.num_bytes, part.host, part.share) for part in parts]
    partitions = pack(whole, max_bytes=most, min_bytes=least)
    for partition in partitions:
        assert len({part.share for part in partition}) == 1
        assert len(partition) == 1 or sum(part.num_bytes for part in partition) <= most
    for partition, following in pairwise(partitions):
        last, first, filled = partition[-1], following[0], sum(part.num_bytes for part in partition)
        full = filled + first.num_bytes > most
        assert last.share != first.share or full or (last.host != first.host and filled >= least)


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "partitions"),
    [
        ([], 10, []),
        ([30], 10, [(30,)]),
        ([5, 5, 1], 10, [(5, 5), (1,)]),
        ([5, 6, 4, 30, 1], 10, [(5,), (6, 4), (30,), (1,)]),
    ],
)
def test_partitions_are_filled_up_to_the_maximum(
    sizes: list[int], max_bytes: int, partitions: list[tuple[int, ...]]
) -> None:
    assert pack([Packable(size, size) for size in sizes], max_bytes=max_bytes) == partitions


def test_a_small_partition_continues_on_another_host() -> None:
    parts = [Packable("a1", 10, "a"), Packable("b1", 10, "b"), Packable("b2", 10, "b"), Packable("a2", 10, "a")]
    assert pack(parts, min_bytes=11) == [("a1", "b1", "b2"), ("a2",)]
