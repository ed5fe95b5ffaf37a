"""From stored blocks to the partitions of a batch."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.blocks.block import BlockReference
from penstock.spark.rdds import LocatedPartition
from penstock.track.block_locations import pack
from penstock.worker.block_reader import ReadBlocks

Located = list[tuple[str, int, BlockReference]]


def located(*blocks: tuple[str, int]) -> Located:
    """Blocks, by host and size."""
    return [(host, size, BlockReference(f"b{n}", f"/b{n}", 1, "")) for n, (host, size) in enumerate(blocks)]


def packed(blocks: Located, partition_bytes: int) -> list[tuple[str, tuple[str, ...]]]:
    """The names of each partition's blocks, without spaces, and its hosts."""
    return [
        ("".join(reference.block_id for reference in partition.element), partition.hosts)
        for partition in pack(blocks, partition_bytes)
    ]


@pytest.mark.parametrize(
    ("blocks", "partition_bytes", "partitions"),
    [
        ([], 100, []),
        ([("a", 10)], 100, [("b0", ("a",))]),
        ([("a", 10), ("a", 10), ("a", 10)], 100, [("b0b1b2", ("a",))]),
        ([("a", 60), ("a", 60), ("a", 60)], 100, [("b0b1", ("a",)), ("b2", ("a",))]),
        ([("a", 100), ("a", 1)], 100, [("b0", ("a",)), ("b1", ("a",))]),
        ([("a", 99), ("a", 500), ("a", 1)], 100, [("b0b1", ("a",)), ("b2", ("a",))]),
        ([("a", 10), ("b", 10), ("a", 10)], 100, [("b0", ("a",)), ("b1", ("b",)), ("b2", ("a",))]),
        ([("", 10), ("", 10)], 100, [("b0b1", ())]),
        ([("a", 0), ("a", 0)], 100, [("b0b1", ("a",))]),
        ([("a", 10), ("a", 10)], 1, [("b0", ("a",)), ("b1", ("a",))]),
    ],
    ids=range(10),
)
def test_small_blocks_of_one_host_share_a_partition(
    blocks: list[tuple[str, int]], partition_bytes: int, partitions: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert packed(located(*blocks), partition_bytes) == partitions


@given(st.lists(st.tuples(st.sampled_from(["a", "b", ""]), st.integers(0, 300)), max_size=30), st.integers(1, 400))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_every_block_is_there_once_in_order_on_its_host(blocks: list[tuple[str, int]], partition_bytes: int) -> None:
    given_blocks = located(*blocks)
    partitions = pack(given_blocks, partition_bytes)
    assert [each for partition in partitions for each in partition.element] == [each for _, _, each in given_blocks]
    of = {reference: (host, size) for host, size, reference in given_blocks}
    for partition in partitions:
        assert {of[each][0] for each in partition.element} == {partition.hosts[0] if partition.hosts else ""}
        assert sum(of[each][1] for each in partition.element[:-1]) < partition_bytes
    for before, after in pairwise(partitions):
        filled = sum(of[each][1] for each in before.element)
        assert filled >= partition_bytes or before.hosts != after.hosts


def test_blocks_of_a_batch_become_partitions_of_references(make_tracker: Callable[..., Any]) -> None:
    tracked = make_tracker(conf={"spark.penstock.partitionBytes": "2000"})
    tracked.tracker.start()
    process = tracked.registered()
    assert process.add(0, 1, 2).accepted
    tracked.tracker.allocate_blocks_to_batch(100)
    assert tracked.tracker.count(100, 0) == 30
    source = f"grpc://127.0.0.1:{process.endpoint.port}"
    references = [BlockReference(f"input-0-1-{n}", f"/blocks/0-1-{n}", 10, source) for n in range(3)]
    assert tracked.tracker.partitions(100, 0) == [
        LocatedPartition(tuple(references[:2]), ("host-a",)),
        LocatedPartition(tuple(references[2:]), ("host-a",)),
    ]
    assert tracked.tracker.reader == ReadBlocks(process.task.driver.token, process.task.driver.location)
    assert (tracked.tracker.count(200, 0), tracked.tracker.partitions(200, 0)) == (0, [])
    tracked.tracker.clean_up(101, delete=True)
    assert tracked.tracker.count(100, 0) == 0
