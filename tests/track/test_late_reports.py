"""A report that is made again after its block was used and deleted adds nothing."""

from penstock import StoredBlock
from penstock.track.received_block_tracker import ReceivedBlockTracker


def test_a_block_that_was_cleaned_up_is_not_taken_again() -> None:
    # The answer to the first report was lost; by the second, a short batch has come and gone, and the file with it.
    tracker = ReceivedBlockTracker([0])
    block = StoredBlock("input-0-1-0", 0, 10, 1000, "/blocks/input-0-1-0")
    tracker.add_blocks([block])
    tracker.allocate_blocks_to_batch(1)
    assert tracker.clean_up_batches(2) == [block]
    tracker.add_blocks([block])
    tracker.allocate_blocks_to_batch(3)
    assert tracker.blocks_of_batch(3, 0) == []
