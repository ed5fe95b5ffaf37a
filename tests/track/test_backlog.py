"""Receivers pause while the backlog exceeds its limit, and resume below it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Receiver, StoredBlock, StreamInputInfo
from penstock.conf_values import SizeLimit, parse_size_limit
from penstock.listen.events import ReceiverError
from penstock.receive.messages import AddBlocks, UpdateRateLimit
from penstock.runtime.log import throttle
from penstock.track.backlog import Backlog
from penstock.wire.json_codec import Reply
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]


def block(number: int, num_bytes: int = 100) -> StoredBlock:
    return StoredBlock(f"input-0-1-{number}", 0, 1, num_bytes, "/x")


class Changes:
    def __init__(self) -> None:
        self.entries: list[tuple[str, int, int, bool]] = []

    def __call__(self, *change: Any) -> None:
        self.entries.append(change)


def test_change_is_reported_once_each_way() -> None:
    changes = Changes()
    backlog = Backlog(SizeLimit(1000), changes)
    backlog.add("a", [block(n) for n in range(10)])
    assert (changes.entries, backlog.num_bytes) == ([], 1000)
    backlog.add("a", [block(10)])
    backlog.add("a", [block(11)])
    assert changes.entries == [("a", 1100, 1000, True)]
    backlog.processed([block(n) for n in range(3)])
    assert len(changes.entries) == 1
    backlog.processed([block(3)])
    backlog.processed([block(4)])
    assert changes.entries[1:] == [("a", 800, 1000, False)]
    assert (backlog.num_bytes, backlog.is_full) == (700, False)


def test_executors_have_the_backlog_of_their_blocks_until_it_is_processed() -> None:
    backlog = Backlog(SizeLimit(1000), Changes())
    backlog.add("a", [block(0), block(1)], "1")
    backlog.add("a", [block(2)], "2")
    # In the write-ahead log.
    backlog.add("a", [block(3)])
    assert backlog.by_executor == {"1": 200, "2": 100}
    backlog.processed([block(1), block(3)])
    assert backlog.by_executor == {"1": 100, "2": 100}


def test_disk_of_unknown_size_has_no_limit() -> None:
    changes = Changes()
    backlog = Backlog(parse_size_limit("50%"), changes)
    backlog.set_disk("a", 100)
    backlog.add("a", [block(0)])
    backlog.set_disk("a", 0)
    backlog.processed([])
    backlog.add("a", [])
    assert changes.entries == [("a", 100, 50, True), ("a", 100, 0, False)]


def test_a_block_counts_once() -> None:
    backlog = Backlog(SizeLimit(1000), Changes())
    for _ in range(3):
        backlog.add("a", [block(0)])
    assert backlog.num_bytes == 100
    for _ in range(3):
        backlog.processed([block(0), block(7)])
    assert backlog.num_bytes == 0


def test_each_host_has_its_own_bound() -> None:
    changes = Changes()
    backlog = Backlog(SizeLimit(share=0.5), changes)
    backlog.set_disk("a", 400)
    backlog.set_disk("b", 10_000)
    backlog.add("a", [block(0), block(1)])
    backlog.add("b", [block(n) for n in range(2, 12)])
    backlog.add("unknown", [block(12, 10**12)])
    assert changes.entries == []
    backlog.add("a", [block(13)])
    assert changes.entries == [("a", 300, 200, True)]


def test_no_limit_reports_nothing() -> None:
    changes = Changes()
    Backlog(SizeLimit(), changes).add("a", [block(0, 10**15)])
    assert changes.entries == []


@pytest.mark.parametrize("seed", range(5))
def test_backlog_equals_the_size_of_unprocessed_blocks(seed: int) -> None:
    rng = random.Random(seed)
    changes = Changes()
    backlog, there = Backlog(SizeLimit(2000), changes), dict[int, StoredBlock]()
    for number in range(500):
        if rng.random() < 0.5 or not there:
            there[number] = block(number, rng.randint(1, 300))
            backlog.add("a", [there[number]])
        else:
            chosen = rng.sample(sorted(there), rng.randint(1, len(there)))
            backlog.processed([there.pop(each) for each in chosen])
        assert backlog.num_bytes == sum(each.num_bytes for each in there.values())
    # Each way in turn.
    assert [change[3] for change in changes.entries] == [n % 2 == 0 for n in range(len(changes.entries))]


@pytest.mark.parametrize(
    ("text", "disk", "limit"),
    [("1g", 0, 1 << 30), ("50%", 1000, 500), ("12.5 %", 1000, 125), ("50%", 0, None), ("0", 9, None), ("0%", 9, None)],
)
def test_limit_is_parsed(text: str, disk: int, limit: int | None) -> None:
    assert parse_size_limit(text).of(disk) == limit


@pytest.mark.parametrize("text", ["101%", "-1%", "x%", "-5", "much", "nan%"])
def test_invalid_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_size_limit(text)


def test_receivers_pause_above_the_backlog_limit(make_tracker: MakeTracker, silent: type[Receiver[Any]]) -> None:
    # A block of the test has 1,000 bytes.
    tracked = make_tracker([silent(), silent()], conf={"spark.penstock.blocks.maxUnprocessed": "2500"})
    tracked.tracker.start()
    tracked.launch(2)
    processes = [tracked.registered(1), tracked.registered(2)]
    assert processes[0].add(0, 1).accepted
    tracked.settle()
    assert processes[0].received.entries == []
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    assert processes[0].add(2).accepted
    for process in processes:
        assert process.received.await_one(UpdateRateLimit).paused
    said = tracked.events.await_one(ReceiverError).receiverInfo.lastErrorMessage
    assert said == (
        "receivers pause: 3000 bytes on 127.0.0.1 are not processed yet, more than "
        "spark.penstock.blocks.maxUnprocessed allows"
    )
    assert tracked.tracker.backlog.num_bytes == 3000
    # What was on its way is taken; who comes anew is paused.
    assert processes[0].add(3).accepted
    tracked.tracker.processed(99)
    tracked.settle()
    assert len(processes[0].received.entries) == 1
    tracked.tracker.processed(100)
    for process in processes:
        assert not process.received.await_one(UpdateRateLimit, 2).paused
    assert tracked.tracker.backlog.num_bytes == 2000
    tracked.tracker.processed(100)
    tracked.tracker.clean_up(200, delete=False)
    assert tracked.tracker.backlog.num_bytes == 2000


def test_limit_counts_the_windows_that_failed_batches_keep(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.blocks.maxUnprocessed": "2500"})
    tracker = tracked.tracker
    tracker.start()
    process = tracked.registered()
    for time_ms in (100, 200, 300, 400):
        assert process.add(time_ms).accepted
        tracker.blocks.allocate_blocks_to_batch(time_ms)
        tracker.processed(time_ms, [300])
    assert tracker.backlog.num_bytes == 1000
    # The window of the failed batch has three blocks; two of them were processed by the batches that received them.
    for _ in range(2):
        tracker.clean_up(350, [range(100, 301)], delete=True)
        assert tracker.backlog.num_bytes == 3000
    assert process.received.await_one(UpdateRateLimit).paused
    # The batch has succeeded: its blocks are on the disk until they are cleaned up.
    tracker.processed(400)
    assert tracker.backlog.num_bytes == 3000
    tracker.clean_up(350, delete=True)
    assert tracker.backlog.num_bytes == 0
    assert not process.received.await_one(UpdateRateLimit, 2).paused


def test_receivers_resume_only_when_no_reason_to_pause_remains(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.blocks.maxUnprocessed": "500"})
    tracked.tracker.start()
    process = tracked.registered()
    process.add(0)
    process.received.await_one(UpdateRateLimit)
    tracked.tracker.pause(True)
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    tracked.tracker.processed(100)
    tracked.settle()
    # One of the reasons remains: nothing has changed for the receiver.
    assert process.desired().paused
    assert process.received.names == ["UpdateRateLimit"]
    tracked.tracker.pause(False)
    assert not process.received.await_one(UpdateRateLimit, 2).paused


def test_receiver_that_registers_during_a_pause_is_paused(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.blocks.maxUnprocessed": "500"})
    tracked.tracker.start()
    process = tracked.registered()
    process.add(0)
    process.received.await_one(UpdateRateLimit)
    process.launch.end(RuntimeError("lost"))
    tracked.relaunch()
    assert tracked.process(2).desired().paused


def test_backlog_is_no_error_of_a_receiver_that_does_not_receive(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.blocks.maxUnprocessed": "500"})
    tracked.tracker.start()
    process = tracked.registered()
    assert process.deregister().accepted
    assert process.add(0).accepted
    tracked.settle()
    assert tracked.tracker.backlog.is_full
    assert "ReceiverError" not in tracked.events.names


def test_fluttering_backlog_is_warned_about_once_a_minute(
    make_tracker: MakeTracker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    throttle.reset(clock)
    tracked = make_tracker(conf={"spark.penstock.blocks.maxUnprocessed": "500"})
    tracked.tracker.start()
    process = tracked.registered()

    def warnings() -> int:
        """Fill it up and process it all, ten times."""
        caplog.clear()
        for _ in range(10):
            number = next(numbers)
            process.add(number)
            assert process.received.await_one(UpdateRateLimit, next(orders)).paused
            tracked.settle()
            tracked.tracker.blocks.allocate_blocks_to_batch(number)
            tracked.tracker.processed(number)
            assert not process.received.await_one(UpdateRateLimit, next(orders)).paused
            tracked.settle()
        return sum(record.levelname == "WARNING" for record in caplog.records)

    numbers, orders = itertools.count(1), itertools.count(1)
    assert (warnings(), warnings()) == (2, 0)
    assert tracked.events.names.count("ReceiverError") == 1
    clock.advance(60_000)
    assert warnings() == 2
    assert tracked.events.names.count("ReceiverError") == 2


def test_buffers_of_active_receivers_and_arrivals_of_batches_are_known(
    make_tracker: MakeTracker, silent: type[Receiver[Any]]
) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    processes = [tracked.registered(number) for number in (1, 2)]
    for process, sizes in zip(processes, ([500, 70], [3]), strict=True):
        for number, size in enumerate(sizes):
            id_, epoch = process.task.stream_id, process.task.epoch
            block = StoredBlock(f"input-{id_}-{epoch}-{number}", id_, 1, 10, "/b", arrival_ms=1000 - size)
            assert process.driver.ask(AddBlocks(id_, epoch, [block], size), Reply).accepted
    assert tracked.tracker.buffered_bytes() == 73
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    ids = [process.task.stream_id for process in processes]
    assert [tracked.tracker.input_info(100, id_).earliest_arrival for id_ in ids] == [500, 997]
    assert tracked.tracker.input_info(200, ids[0]) == StreamInputInfo(ids[0], 0)
    assert processes[0].deregister().accepted
    assert tracked.tracker.buffered_bytes() == 3


def test_input_of_a_batch_has_the_first_trace_contexts_of_its_blocks(
    make_tracker: MakeTracker, silent: type[Receiver[Any]]
) -> None:
    tracked = make_tracker([silent()])
    tracked.tracker.start()
    process = tracked.registered(1)
    parents = [tuple(f"{number}-{part}" for part in range(8)) for number in range(20)]
    blocks = [StoredBlock(f"input-0-1-{n}", 0, 1, 10, "/b", traceparents=parents[n]) for n in range(20)]
    assert process.driver.ask(AddBlocks(0, 1, blocks), Reply).accepted
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    assert tracked.tracker.input_info(100, 0).traceparents == sum(parents[:16], ())
