"""``ReceivedBlockTracker``, with the numbers of Spark's ReceivedBlockTrackerSuite."""

import gc
import tracemalloc
from itertools import chain

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock import StoredBlock
from penstock.receive.messages import AddBlocks
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.wire.json_codec import from_json, to_json


def block(number: int, stream_id: int = 1) -> StoredBlock:
    return StoredBlock(f"input-{stream_id}-1-{number}", stream_id, number, 100, f"/{stream_id}/{number}")


def blocks(*numbers: int, stream_id: int = 1) -> list[StoredBlock]:
    return [block(number, stream_id) for number in numbers]


def stored(tracker: ReceivedBlockTracker) -> tuple[int, int]:
    return tracker.state.num_known, tracker.state.known_bytes


@pytest.fixture
def tracker() -> ReceivedBlockTracker:
    return ReceivedBlockTracker([1])


def test_blocks_wait_until_they_are_allocated(tracker: ReceivedBlockTracker) -> None:
    assert not tracker.has_unallocated_blocks
    tracker.add_blocks(blocks(1, 2))
    tracker.add_blocks(blocks(3))
    assert tracker.has_unallocated_blocks
    assert tracker.blocks_of_batch(1, 1) == []
    tracker.allocate_blocks_to_batch(1)
    assert tracker.blocks_of_batch(1, 1) == blocks(1, 2, 3)
    assert not tracker.has_unallocated_blocks


def test_streams_have_queues_of_their_own() -> None:
    tracker = ReceivedBlockTracker([1, 2, 3])
    tracker.add_blocks([block(1, 2), block(1, 1), block(2, 2)])
    tracker.allocate_blocks_to_batch(1)
    assert tracker.blocks_of_batch(1, 1) == blocks(1)
    assert tracker.blocks_of_batch(1, 2) == blocks(1, 2, stream_id=2)
    assert tracker.blocks_of_batch(1, 3) == []


def test_returned_lists_are_copies(tracker: ReceivedBlockTracker) -> None:
    tracker.add_blocks(blocks(1))
    tracker.allocate_blocks_to_batch(1)
    tracker.blocks_of_batch(1, 1).clear()
    assert tracker.blocks_of_batch(1, 1) == blocks(1)


def test_a_hundred_thousand_blocks_belong_to_the_batch(tracker: ReceivedBlockTracker) -> None:
    many = blocks(*range(100_000))
    tracker.add_blocks(many)
    tracker.allocate_blocks_to_batch(1)
    assert tracker.blocks_of_batch(1, 1) == many


STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 20), max_size=4)),
    st.tuples(st.just("allocate"), st.integers(0, 20)),
    st.tuples(st.just("clean up"), st.integers(0, 20)),
)


@given(st.lists(STEP, max_size=30))
@settings(max_examples=examples(80), derandomize=True, deadline=None)
def test_tracker_agrees_with_a_simple_model(steps: list[tuple[str, object]]) -> None:
    tracker = ReceivedBlockTracker([1])
    waiting: list[int] = []
    batches: dict[int, list[int]] = {}
    last, known = -1, set[int]()
    for step, value in steps:
        if step == "add":
            assert isinstance(value, list)
            # A block that was cleaned up before is not reported again in this test.
            kept = {*waiting, *chain.from_iterable(batches.values())}
            numbers = [number for number in value if number not in known or number in kept]
            tracker.add_blocks(blocks(*numbers))
            for number in numbers:
                if number not in known:
                    waiting.append(number)
                    known.add(number)
        elif step == "allocate":
            assert isinstance(value, int)
            tracker.allocate_blocks_to_batch(value)
            if value > last:
                batches[value], waiting, last = waiting, [], value
        else:
            assert isinstance(value, int)
            old = [batch for batch in sorted(batches) if batch < value]
            expected = [number for batch in old for number in batches.pop(batch)]
            assert [clean_up_batch.num_records for clean_up_batch in tracker.clean_up_batches(value)] == expected
        assert tracker.has_unallocated_blocks == bool(waiting)
        for batch in range(21):
            assert [each.num_records for each in tracker.blocks_of_batch(batch, 1)] == batches.get(batch, [])


def test_repeated_report_of_a_cleaned_up_block_adds_nothing() -> None:
    # The answer to the first report was lost; by the second, a short batch has come and gone, and the file with it.
    tracker = ReceivedBlockTracker([0])
    block = StoredBlock("input-0-1-0", 0, 10, 1000, "/blocks/input-0-1-0")
    tracker.add_blocks([block])
    tracker.allocate_blocks_to_batch(1)
    assert tracker.clean_up_batches(2) == [block]
    tracker.add_blocks([block])
    tracker.allocate_blocks_to_batch(3)
    assert tracker.blocks_of_batch(3, 0) == []


def test_stored_blocks_are_counted_until_they_are_cleaned_up() -> None:
    tracker = ReceivedBlockTracker([1, 2])
    tracker.add_blocks(blocks(1, 2))
    tracker.add_blocks(blocks(1, 2, 3))
    tracker.add_blocks(blocks(1, stream_id=2))
    assert stored(tracker) == (4, 400)
    tracker.allocate_blocks_to_batch(1)
    tracker.add_blocks(blocks(4))
    assert stored(tracker) == (5, 500)
    tracker.clean_up_batches(2)
    assert stored(tracker) == (1, 100)
    tracker.forget_streams([1])
    assert stored(tracker) == (0, 0)
    assert tracker.log_bytes is None


def test_a_block_takes_as_much_memory_as_the_pages_say(tracker: ReceivedBlockTracker) -> None:
    """docs/scale.md and docs/deployment.md say 0.6 KB."""
    number, folder = 5000, "/tmp/spark-3b0cf9e2-7d39-4f4a-9a8f-0a0e7c9e5b1d/penstock/run"
    reports = [
        to_json(
            AddBlocks(1, 1, [StoredBlock(f"input-1-1-{n}", 1, 2000, 210_000, f"{folder}/{n}.arrow", None, 2**31, n)])
        )
        for n in range(number)
    ]
    gc.collect()
    tracemalloc.start()
    try:
        for report in reports:
            tracker.add_blocks(from_json(AddBlocks, report).blocks)
        tracker.allocate_blocks_to_batch(1)
        gc.collect()
        assert 300 < tracemalloc.get_traced_memory()[0] / number < 600
    finally:
        tracemalloc.stop()
