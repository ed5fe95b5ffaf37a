"""``BlocksInput``: the blocks that a DataFrame of several batches is read from."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from penstock.spi import BlocksInput
from penstock_dataframes.united_inputs import unite

READ: Any = "reads blocks"


def blocks_input(partitions: Sequence[Sequence[int]], hosts: Sequence[Sequence[str]], num_bytes: int) -> BlocksInput:
    """The input of partitions of blocks, here numbers."""
    references = tuple(pickle.dumps(tuple(partition), pickle.HIGHEST_PROTOCOL) for partition in partitions)
    return BlocksInput(references, tuple(map(tuple, hosts)), num_bytes, READ)


def test_small_batches_of_a_window_share_partitions() -> None:
    tiny = [blocks_input([[n]], [("a",)], 9) for n in range(60)]
    assert unite(tiny, 1000) == blocks_input([range(60)], [("a",)], 540)
    # Below twice the minimum.
    halves = [blocks_input([[n]], [("a",)], 500) for n in range(5)]
    assert unite(halves, 1000) == blocks_input([[0, 1, 2], [3, 4]], [("a",)] * 2, 2500)


def test_batches_of_several_partitions_or_other_hosts_keep_theirs() -> None:
    inputs = [
        blocks_input([[0]], [("a",)], 1),
        blocks_input([[1]], [("b",)], 1),
        blocks_input([[2], [3]], [("b",), ("b",)], 1),
        blocks_input([[4], [5]], [("b",), ("b",)], 1),
        blocks_input([[6]], [("b",)], 1),
    ]
    united = unite(inputs, 1000)
    assert [pickle.loads(reference) for reference in united.references] == [(n,) for n in range(7)]
    assert united.hosts == (("a",), *[("b",)] * 6)
    assert united.num_bytes == 5


@given(
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from("ab"), st.integers(1, 3)), min_size=1), st.integers(1, 20)
)
def test_united_inputs_keep_every_block_in_order_on_its_host(batches: list[tuple[int, str, int]], least: int) -> None:
    numbers = itertools.count()
    inputs = [
        blocks_input([[next(numbers)] for _ in range(partitions)], [(host,)] * partitions, size)
        for size, host, partitions in batches
    ]
    united = unite(inputs, least)
    assert located(united) == list(itertools.chain.from_iterable(map(located, inputs)))
    assert united.num_bytes == sum(size for size, _, _ in batches)


def located(blocks: BlocksInput) -> list[tuple[int, tuple[str, ...]]]:
    """Each block with its hosts."""
    partitions = zip(map(pickle.loads, blocks.references), blocks.hosts, strict=True)
    return [(block, hosts) for partition, hosts in partitions for block in partition]
