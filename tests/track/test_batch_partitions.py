"""From stored blocks to the partitions of a batch."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.blocks.block import BlockReference
from penstock.spark.rdds import LocatedPartition
from penstock.track.batch_partitions import Located, PartitionBounds, how_many, partitions_of
from penstock.worker.block_reader import ReadBlocks

BOUNDS = PartitionBounds(min_bytes=100, max_bytes=1000)


def located(*blocks: tuple[str, int]) -> list[Located]:
    """Blocks, by host and size."""
    return [(host, size, BlockReference(f"b{n}", f"/b{n}", 1, "")) for n, (host, size) in enumerate(blocks)]


@pytest.mark.parametrize(
    ("num_bytes", "slots", "number"),
    [
        (0, 4, 1),
        (1, 4, 1),
        (199, 4, 1),
        (200, 4, 2),
        (399, 4, 3),
        (400, 4, 4),
        (4000, 4, 4),
        (4001, 4, 8),
        (8000, 4, 8),
        (8001, 4, 12),
        (50, 1, 1),
        (1000, 1, 1),
        (1001, 1, 2),
        (3000, 1, 3),
        (10**9, 2, 10**6),
    ],
)
def test_number_of_partitions_follows_bytes_and_slots(num_bytes: int, slots: int, number: int) -> None:
    assert how_many(num_bytes, slots, BOUNDS) == number


def test_block_is_cut_into_pieces_of_at_least_the_minimum() -> None:
    # Ten shares of 50 bytes.
    block = ("host", 500, BlockReference("b", "/b", 500, ""))
    partitions = partitions_of([block], 2, PartitionBounds(min_bytes=100, max_bytes=10_000, number=10))
    assert [partition.num_bytes for partition in partitions] == [100] * 5
    records = [reference.records for partition in partitions for reference in partition.element]
    assert records == [(0, 100), (100, 200), (200, 300), (300, 400), (400, None)]


@pytest.mark.parametrize("num_bytes", [1, 500, 10**6])
def test_number_of_partitions_that_the_user_asked_for_wins(num_bytes: int) -> None:
    assert how_many(num_bytes, 4, evolve(BOUNDS, number=3)) == 3


@given(st.integers(1, 10**12), st.integers(1, 1000), st.integers(1, 10**9), st.integers(1, 10**10))
@settings(max_examples=examples(80), derandomize=True, deadline=None)
def test_number_of_partitions_is_within_the_bounds(num_bytes: int, slots: int, min_bytes: int, max_bytes: int) -> None:
    number = how_many(num_bytes, slots, PartitionBounds(min_bytes, max_bytes))
    assert number >= 1
    assert num_bytes <= number * max_bytes  # none above the maximum
    if number > slots:
        assert number % slots == 0  # full waves, and no wave too many
        assert num_bytes > (number - slots) * max_bytes
    elif number > 1:
        assert num_bytes >= number * min_bytes or num_bytes > (number - 1) * max_bytes


@pytest.mark.parametrize(
    ("blocks", "slots", "partitions"),
    [
        ([], 2, []),
        ([("a", 10)], 2, [("b0", ("a",))]),
        ([("a", 10), ("a", 10), ("a", 10)], 2, [("b0b1b2", ("a",))]),
        ([("a", 60), ("a", 60), ("a", 60), ("a", 60)], 2, [("b0b1", ("a",)), ("b2b3", ("a",))]),
        ([("a", 60)] * 5, 2, [("b0b1b2", ("a",)), ("b3b4", ("a",))]),
        ([("a", 60)] * 4, 1, [("b0b1b2b3", ("a",))]),
        ([("a", 900), ("a", 10), ("a", 10), ("a", 90)], 2, [("b0", ("a",)), ("b1b2b3", ("a",))]),
        ([("a", 5000)], 2, [("b0", ("a",))]),
        ([("a", 10), ("b", 30), ("a", 10)], 2, [("b0b2b1", ("b",))]),
        ([("a", 150), ("b", 150)] * 3, 1, [("b0b2b4", ("a",)), ("b1b3b5", ("b",))]),
        ([("a", 150), ("b", 100)], 1, [("b0", ("a",)), ("b1", ("b",))]),
        ([("a", 150), ("b", 100)], 2, [("b0", ("a",)), ("b1", ("b",))]),
        ([("", 10), ("", 10)], 2, [("b0b1", ())]),
        ([("a", 0), ("a", 0)], 2, [("b0b1", ("a",))]),
        ([("a", 1000)] * 6, 2, [(f"b{n}", ("a",)) for n in range(6)]),
    ],
    ids=range(15),
)
def test_blocks_share_partitions_in_order(
    blocks: list[tuple[str, int]], slots: int, partitions: list[tuple[str, tuple[str, ...]]]
) -> None:
    found = partitions_of(located(*blocks), slots, BOUNDS)
    names = ["".join(reference.block_id for reference in partition.element) for partition in found]
    assert list(zip(names, (partition.hosts for partition in found), strict=True)) == partitions


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", ""]), st.integers(0, 300)), max_size=40),
    st.integers(1, 8),
    st.integers(1, 400),
    st.integers(1, 2000),
    st.sampled_from([0, 0, 3]),
)
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_every_block_is_in_one_partition_in_the_order_of_its_host_and_shares_are_even(
    blocks: list[tuple[str, int]], slots: int, min_bytes: int, max_bytes: int, number: int
) -> None:
    bounds, given_blocks = PartitionBounds(min_bytes, max_bytes, number), located(*blocks)
    partitions = partitions_of(given_blocks, slots, bounds)
    of = {reference: (host, size) for host, size, reference in given_blocks}
    packed = [each for partition in partitions for each in partition.element]
    assert len(packed) == len(given_blocks)
    for host in ("a", "b", ""):
        assert [each for each in packed if of[each][0] == host] == [each for at, _, each in given_blocks if at == host]
    assert sum(partition.num_bytes for partition in partitions) == sum(size for _, size in blocks)
    total, largest = sum(size for _, size in blocks), max((size for _, size in blocks), default=0)
    wanted = how_many(total, slots, bounds)
    sizes = [sum(of[each][1] for each in partition.element) for partition in partitions]
    assert all(size <= total / wanted + largest for size in sizes)
    changes = max(len({host for host, _ in blocks}) - 1, 0)
    assert len(partitions) <= wanted + min(changes, total // min_bytes)
    for partition in partitions:
        assert partition.element
        bytes_at = dict.fromkeys(("a", "b", ""), 0)
        for each in partition.element:
            bytes_at[of[each][0]] += of[each][1]
        host = partition.hosts[0] if partition.hosts else ""
        assert bytes_at[host] == max(bytes_at.values())


@pytest.mark.parametrize(
    ("sizes", "slots", "partitions"),
    [
        ([600, 600, 600], 2, ["b0 b1:0-300", "b1:300- b2"]),
        ([3000], 3, ["b0:0-1000", "b0:1000-2000", "b0:2000-"]),
        ([2500, 500], 3, ["b0:0-1000", "b0:1000-2000", "b0:2000- b1"]),
        ([990, 400, 610], 2, ["b0", "b1 b2"]),
        ([1010, 400, 590], 2, ["b0", "b1 b2"]),
        ([150], 4, ["b0"]),
    ],
    ids=["in the middle", "one block", "twice", "not its first bytes", "not its last bytes", "not below the minimum"],
)
def test_block_is_cut_where_a_share_ends(sizes: list[int], slots: int, partitions: list[str]) -> None:
    blocks = [("a", size, BlockReference(f"b{n}", f"/b{n}", size, "")) for n, size in enumerate(sizes)]

    def described(reference: BlockReference) -> str:
        if reference.records is None:
            return reference.block_id
        first, end = reference.records
        return f"{reference.block_id}:{first}-{end or ''}"

    found = partitions_of(blocks, slots, BOUNDS)
    assert [" ".join(map(described, partition.element)) for partition in found] == partitions


def test_remote_block_is_whole_because_each_task_would_read_all_of_it() -> None:
    block = BlockReference("b", "hdfs://namenode/b", 3000, "")
    assert [partition.element for partition in partitions_of([("", 3000, block)], 3, BOUNDS)] == [(block,)]


@given(
    st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 10)), min_size=1, max_size=20),
    st.integers(1, 8),
    st.integers(1, 400),
    st.integers(1, 4000),
)
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_pieces_have_every_record_once_and_partitions_are_equal(
    blocks: list[tuple[int, int]], slots: int, min_bytes: int, max_bytes: int
) -> None:
    bounds = PartitionBounds(min_bytes, max_bytes)
    # Every block has as many records as bytes, or some times as many.
    given_blocks = [
        ("a", size, BlockReference(str(n), f"/{n}", size * each, "")) for n, (size, each) in enumerate(blocks)
    ]
    partitions = partitions_of(given_blocks, slots, bounds)
    found: list[tuple[str, int]] = []
    for reference in (each for partition in partitions for each in partition.element):
        first, end = reference.records or (0, None)
        found += [(reference.block_id, n) for n in range(first, reference.num_records if end is None else end)]
    assert found == [(each.block_id, n) for _, _, each in given_blocks for n in range(each.num_records)]
    total = sum(size for size, _ in blocks)
    number = how_many(total, slots, bounds)
    assert sum(partition.num_bytes for partition in partitions) == total
    assert len(partitions) <= number
    assert all(partition.num_bytes <= -(-total // number) + 2 * min_bytes for partition in partitions)


def test_many_tiny_blocks_are_few_partitions() -> None:
    blocks = located(*[(host, 100) for host in ("a", "b") for _ in range(5000)])
    alternating = [block for pair in zip(blocks[:5000], blocks[5000:], strict=True) for block in pair]
    partitions = partitions_of(alternating, 4, PartitionBounds(min_bytes=1 << 20, max_bytes=1 << 27))
    assert [len(partition.element) for partition in partitions] == [10_000]
    assert len(partitions_of(alternating, 4, PartitionBounds(min_bytes=1 << 16, max_bytes=1 << 27))) == 4


def test_blocks_of_a_batch_become_partitions_of_references(make_tracker: Callable[..., Any]) -> None:
    tracked = make_tracker(
        conf={"spark.penstock.partition.minBytes": "2000", "spark.penstock.partition.maxBytes": "2000"}
    )
    tracked.tracker.start()
    process = tracked.registered()
    assert process.add(0, 1, 2).accepted
    tracked.tracker.allocate_blocks_to_batch(100)
    assert tracked.tracker.input_info(100, 0).numRecords == 30
    references = [BlockReference(f"input-0-1-{n}", f"/blocks/0-1-{n}", 10, process.source) for n in range(3)]
    assert tracked.tracker.partitions(100, [0], 1) == [
        LocatedPartition(tuple(references[:2]), ("host-a",), 2000),
        LocatedPartition(tuple(references[2:]), ("host-a",), 1000),
    ]
    reader = tracked.tracker.reader
    assert reader == ReadBlocks(reader.token, process.task.driver.location)
    assert reader.token.derive("0/1") == process.task.driver.readers
    assert (tracked.tracker.input_info(200, 0).numRecords, tracked.tracker.partitions(200, [0], 1)) == (0, [])
    tracked.tracker.clean_up(101, delete=True)
    assert tracked.tracker.input_info(100, 0).numRecords == 0
