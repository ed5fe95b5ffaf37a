"""ReceivedBlockTracker with a write-ahead log: recovery, and the cases of Spark's bug history.

A long file, because the list of those cases is long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock import StoredBlock
from penstock.conf import Settings
from penstock.errors import WriteAheadLogError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.storage.directory import Directory
from penstock.track.allocations import (
    Allocations,
    NumberRanges,
    batch_allocated,
    batches_cleaned,
    blocks_added,
    old_batches,
    receivers_launched,
)
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock_testing import ManualClock

MakeLog = Callable[..., WriteAheadLog]


def batches(tracker: ReceivedBlockTracker) -> dict[int, dict[int, int]]:
    """The batches that were allocated and not cleaned up: the records of each, by time and stream."""
    return {
        time_ms: {
            stream_id: sum(block.num_records for block in blocks)
            # No public name lists the streams of a batch.
            for stream_id, blocks in tracker.state._allocated[time_ms].items()
        }
        for time_ms in sorted(tracker.state.times)
    }


def recovered(tracker: ReceivedBlockTracker) -> dict[int, int]:
    """The number of recovered records that belong to no batch yet, by stream."""
    # The number has no public name: only a log message reports it.
    heads = {stream_id: tracker.state.unallocated(stream_id)[:n] for stream_id, n in tracker._recovered_counts.items()}
    return {stream_id: sum(block.num_records for block in head) for stream_id, head in heads.items()}


def block(number: int, stream_id: int = 1, epoch: int = 1, records: int = 10) -> StoredBlock:
    return StoredBlock(f"input-{stream_id}-{epoch}-{number}", stream_id, records, 1000, f"/blocks/{number}")


def blocks(*numbers: int, stream_id: int = 1, records: int = 10) -> list[StoredBlock]:
    return [block(number, stream_id, records=records) for number in numbers]


@pytest.fixture
def live(make_log: MakeLog) -> Callable[..., ReceivedBlockTracker]:
    """Makes the tracker of the next life, started."""

    def make(
        *stream_ids: int, run: str = "run-1", conf: Mapping[str, str] | None = None, start: bool = True
    ) -> ReceivedBlockTracker:
        tracker = ReceivedBlockTracker(stream_ids or [1], make_log(run, conf))
        if start:
            tracker.start()
        return tracker

    return make


Live = Callable[..., ReceivedBlockTracker]


def fail_writes(monkeypatch: pytest.MonkeyPatch, tracker: ReceivedBlockTracker) -> None:
    def fail(_event: dict[str, Any]) -> None:
        raise WriteAheadLogError("the write-ahead log cannot be written")

    # The fault is injected into a log that was opened without error.
    monkeypatch.setattr(tracker._write_ahead_log, "append", fail)


def waiting(tracker: ReceivedBlockTracker, stream_id: int = 1) -> list[StoredBlock]:
    return tracker.state.unallocated(stream_id)


def test_without_a_checkpoint_directory_there_is_no_write_ahead_log() -> None:
    tracker = ReceivedBlockTracker([1])
    tracker.start()
    tracker.add_blocks(blocks(1))
    tracker.note_launches({1: 7})
    tracker.close()
    assert waiting(tracker) == blocks(1)
    assert (tracker.recovered.last_number, tracker.state.epochs.get(1, 0), tracker.set_aside()) == (0, 1, {})
    assert recovered(tracker) == {}


def test_a_restart_recovers_blocks_batches_and_the_last_time(live: Live) -> None:
    first = live()
    first.add_blocks(blocks(1, 2))
    first.allocate_blocks_to_batch(100)
    first.allocate_blocks_to_batch(200)
    first.add_blocks(blocks(3, 4))
    second = live()
    assert second.blocks_of_batch(100, 1) == blocks(1, 2)
    assert second.blocks_of_batch(200, 1) == []
    assert waiting(second) == blocks(3, 4)
    assert second.state.last_allocated_ms == 200
    second.allocate_blocks_to_batch(200)
    assert waiting(second) == blocks(3, 4)
    second.allocate_blocks_to_batch(300)
    assert second.blocks_of_batch(300, 1) == blocks(3, 4)
    third = live()
    assert batches(third) == {100: {1: 20}, 200: {}, 300: {1: 20}}


def test_another_run_recovers_nothing(live: Live) -> None:
    live().add_blocks(blocks(1))
    other = live(run="run-2")
    assert not other.has_unallocated_blocks
    assert not any(batches(other).values())
    assert other.state.epochs.get(1, 0) == 0


def test_an_allocation_takes_the_blocks_that_it_names_and_no_others(live: Live) -> None:
    # SPARK-23438: the replay emptied the whole queue, and what had come while the allocation was written was lost.
    original_before = live()
    original_before.add_blocks(blocks(1))
    # Holds the race open: the event is appended below the public `add_blocks`.
    write_ahead_log = original_before._write_ahead_log
    assert write_ahead_log is not None
    write_ahead_log.append({"what": "blocks added", "blocks": [_json(block(2))]})
    write_ahead_log.append({"what": "batch allocated", "time": 100, "blocks": {"1": ["input-1-1-1"]}})
    for tracker in (original_before, live()):
        assert tracker.blocks_of_batch(100, 1) == blocks(1)
        assert waiting(tracker) == blocks(2)


def _json(block: StoredBlock) -> dict[str, Any]:
    return {
        "block_id": block.block_id,
        "stream_id": block.stream_id,
        "num_records": block.num_records,
        "num_bytes": block.num_bytes,
        "path": block.path,
    }


def test_blocks_whose_allocation_cannot_be_written_go_to_the_next_batch(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SPARK-23991: the queue was emptied before the write, and a failure lost the blocks.
    tracker = live()
    tracker.add_blocks(blocks(1, 2))
    with monkeypatch.context() as patch:
        fail_writes(patch, tracker)
        with pytest.raises(WriteAheadLogError, match="cannot be written"):
            tracker.allocate_blocks_to_batch(100)
    assert tracker.blocks_of_batch(100, 1) == []
    assert waiting(tracker) == blocks(1, 2)
    assert tracker.state.last_allocated_ms == -1
    tracker.allocate_blocks_to_batch(200)
    assert tracker.blocks_of_batch(200, 1) == blocks(1, 2)
    assert batches(live()) == batches(tracker) == {200: {1: 20}}


def test_block_that_cannot_be_logged_is_not_queued_and_may_be_reported_again(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = live()
    with monkeypatch.context() as patch:
        fail_writes(patch, tracker)
        with pytest.raises(WriteAheadLogError, match="cannot be written"):
            tracker.add_blocks(blocks(1, 2))
    assert not tracker.has_unallocated_blocks
    tracker.add_blocks(blocks(1, 2))
    assert waiting(tracker) == waiting(live()) == blocks(1, 2)


def test_clean_up_that_cannot_be_logged_is_repeated_later(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = live()
    tracker.add_blocks(blocks(1))
    tracker.allocate_blocks_to_batch(100)
    with monkeypatch.context() as patch:
        fail_writes(patch, tracker)
        assert tracker.clean_up_batches(200) == []
    assert "old batches not cleaned up" in caplog.text
    assert tracker.blocks_of_batch(100, 1) == blocks(1)
    assert tracker.clean_up_batches(200) == blocks(1)
    assert batches(live()) == {}


def test_blocks_received_before_the_end_are_not_left_hanging(live: Live) -> None:
    # SPARK-5233: blocks without a batch were ignored at recovery.
    live().add_blocks(blocks(1, 2))
    tracker = live()
    assert recovered(tracker) == {1: 20}
    tracker.allocate_blocks_to_batch(100)
    assert tracker.blocks_of_batch(100, 1) == blocks(1, 2)
    assert recovered(tracker) == {}


def test_cleaned_up_blocks_stay_forgotten_after_restarts(live: Live) -> None:
    # SPARK-5147, SPARK-6222: never deleted, or deleted too early.
    first = live()
    for time_ms in (100, 200, 300):
        first.add_blocks(blocks(time_ms))
        first.allocate_blocks_to_batch(time_ms)
    assert first.clean_up_batches(200) == blocks(100)
    for _ in range(3):
        tracker = live()
        assert batches(tracker) == {200: {1: 10}, 300: {1: 10}}
        assert tracker.blocks_of_batch(200, 1) == blocks(200)
    assert tracker.clean_up_batches(300) == blocks(200)
    assert batches(live()) == {300: {1: 10}}


def test_blocks_of_a_failed_batch_outlive_younger_ones_and_restarts(live: Live) -> None:
    first = live()
    for time_ms in (100, 200, 300, 400):
        first.add_blocks(blocks(time_ms))
        first.allocate_blocks_to_batch(time_ms)
    assert first.clean_up_batches(400, [range(150, 201)]) == blocks(100, 300)
    assert batches(live()) == {200: {1: 10}, 400: {1: 10}}
    assert live().clean_up_batches(400) == blocks(200)
    assert batches(live()) == {400: {1: 10}}


@given(
    times=st.sets(st.integers(0, 60)),
    ends=st.lists(st.integers(0, 60), max_size=12).map(sorted),
    length=st.integers(0, 15),
    before=st.integers(0, 70),
)
def test_old_batches_are_those_in_no_retained_range(times: set[int], ends: list[int], length: int, before: int) -> None:
    retained = [range(end - length, end + 1) for end in ends]
    expected = [time for time in sorted(times) if time < before and not any(time in kept for kept in retained)]
    assert old_batches(sorted(times), before, retained) == expected


def test_blocks_of_a_failed_batch_are_unprocessed_until_it_succeeds(live: Live) -> None:
    tracker = live()
    for time_ms in (100, 200, 300):
        tracker.add_blocks(blocks(time_ms))
        tracker.allocate_blocks_to_batch(time_ms)
    assert tracker.processed(200, [100]) == blocks(200)
    assert tracker.processed(300, [100]) == blocks(300)
    assert tracker.processed(300) == blocks(100)
    assert tracker.processed(300) == []


def test_a_time_whose_batch_was_cleaned_up_stays_allocated(live: Live) -> None:
    first = live()
    first.allocate_blocks_to_batch(500)
    first.clean_up_batches(501)
    second = live()
    second.add_blocks(blocks(1))
    second.allocate_blocks_to_batch(500)
    assert waiting(second) == blocks(1)
    assert live().state.last_allocated_ms == 500


def test_a_repeated_report_adds_nothing_in_any_later_life(live: Live) -> None:
    first = live()
    first.add_blocks(blocks(1, 2, 3))
    first.allocate_blocks_to_batch(100)
    first.clean_up_batches(101)
    first.add_blocks(blocks(4))
    for _ in range(2):
        tracker = live()
        with tracker.adding(blocks(1, 4)) as new:
            assert new == []
        tracker.add_blocks(blocks(1, 4))
        assert waiting(tracker) == blocks(4)


def test_a_repeated_report_is_not_written_again(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = live()
    tracker.add_blocks(blocks(1, 2))
    fail_writes(monkeypatch, tracker)
    with tracker.adding(blocks(2, 1)) as new:
        assert new == []


def test_all_blocks_of_a_report_are_one_event(live: Live) -> None:
    live().add_blocks(blocks(*range(50)))
    assert live(start=False).recovered.last_number == 1


def test_metadata_and_odd_names_survive(live: Live) -> None:
    odd = StoredBlock("of a plugin's own", 1, 0, 0, "s3://bucket/ü \ud800", {"offset": 3, "nested": [None, {"a": 1.5}]})
    live().add_blocks([odd])
    assert waiting(live(start=False)) == [odd]


def test_trace_contexts_survive(live: Live) -> None:
    traced = evolve(block(1, 1), traceparents=("00-1", "00-2"))
    live().add_blocks([traced])
    assert waiting(live(start=False)) == [traced]


def test_thirty_thousand_blocks_are_recovered(live: Live) -> None:
    first = live()
    for start in range(0, 30_000, 1000):
        first.add_blocks(blocks(*range(start, start + 1000)))
    first.allocate_blocks_to_batch(100)
    first.add_blocks(blocks(30_000))
    second = live()
    assert second.blocks_of_batch(100, 1) == blocks(*range(30_000))
    assert waiting(second) == blocks(30_000)
    # The second life's file begins with the state.
    third = live(start=False)
    assert batches(third) == {100: {1: 300_000}}
    assert waiting(third) == blocks(30_000)


def test_launch_numbers_continue_after_a_restart(live: Live) -> None:
    first = live(1, 2, 3)
    first.note_launches({1: 4, 2: 1})
    first.note_launches({})
    first.add_blocks([block(1, 3, epoch=9), block(2, 3, epoch=2)])
    for _ in range(2):
        tracker = live(1, 2, 3, 4)
        assert [tracker.state.epochs.get(stream_id, 0) for stream_id in (1, 2, 3, 4)] == [4, 1, 9, 0]


def test_launch_that_cannot_be_logged_is_started(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = live()
    fail_writes(monkeypatch, tracker)
    tracker.note_launches({1: 1})
    assert "launches not written" in caplog.text


def test_blocks_of_a_removed_stream_are_set_aside_with_a_warning(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    live(1, 2).add_blocks([*blocks(1, 2), *blocks(3, stream_id=2)])
    without = live(1)
    assert without.set_aside() == {2: 10}
    assert "set aside" in caplog.text
    assert recovered(without) == {1: 20}
    without.allocate_blocks_to_batch(100)
    assert batches(without) == {100: {1: 20}}
    assert not without.has_unallocated_blocks
    assert without.clean_up_batches(101) == blocks(1, 2)
    assert not without.has_unallocated_blocks
    assert not any(batches(without).values())
    # A program that has the stream again has them.
    again = live(1, 2)
    assert again.set_aside() == {}
    again.allocate_blocks_to_batch(200)
    assert batches(again) == {200: {2: 10}}


def test_forgotten_stream_leaves_no_blocks(live: Live) -> None:
    first = live(1, 2)
    first.note_launches({1: 1, 2: 5})
    first.add_blocks([*blocks(1), *blocks(2, stream_id=2)])
    first.allocate_blocks_to_batch(100)
    first.add_blocks([*blocks(3), *blocks(4, stream_id=2)])
    first.close()
    without = live(1)
    without.forget_streams({2})
    for tracker in (without, live(1)):
        assert tracker.set_aside() == {}
        assert {each.stream_id for each in tracker.state.retained()} == {1}
        assert tracker.state.epochs.get(2, 0) == 0
    assert batches(live(1)) == {100: {1: 10}}


def test_clean_up_returns_blocks_of_current_streams_only(live: Live) -> None:
    first = live(1, 2)
    first.add_blocks([*blocks(1), *blocks(2, stream_id=2)])
    first.allocate_blocks_to_batch(100)
    assert live(1).clean_up_batches(101) == blocks(1)


def numbers_of(tracker: ReceivedBlockTracker, time_ms: int, stream_id: int = 1) -> list[int]:
    return [int(each.block_id.split("-")[-1]) for each in tracker.blocks_of_batch(time_ms, stream_id)]


def test_recovered_blocks_are_spread_over_batches_before_new_ones(live: Live) -> None:
    live().add_blocks(blocks(*range(5)))
    tracker = live()
    tracker.spread_recovered_blocks({1: 25})
    tracker.add_blocks(blocks(5, 6))
    for time_ms in (100, 200, 300, 400):
        tracker.allocate_blocks_to_batch(time_ms)
        tracker.add_blocks(blocks(time_ms))
    assert numbers_of(tracker, 100) == [0, 1]
    assert tracker.blocks_of_batch(200, 1) == blocks(2, 3)
    # The last leftover, and all that has come since.
    assert numbers_of(tracker, 300) == [4, 5, 6, 100, 200]
    assert numbers_of(tracker, 400) == [300]
    assert recovered(tracker) == {}


def test_a_recovered_block_that_is_larger_than_the_limit_is_a_batch(live: Live) -> None:
    live().add_blocks([*blocks(0, records=100), *blocks(1, 2)])
    tracker = live()
    tracker.spread_recovered_blocks({1: 15})
    assert recovered(tracker) == {1: 120}
    for time_ms in (100, 200, 300):
        tracker.allocate_blocks_to_batch(time_ms)
    assert [numbers_of(tracker, time_ms) for time_ms in (100, 200, 300)] == [[0], [1], [2]]


def test_streams_are_spread_each_by_its_own_limit(live: Live) -> None:
    live(1, 2, 3).add_blocks([block(number, stream_id) for stream_id in (1, 2, 3) for number in range(3)])
    tracker = live(1, 2, 3)
    tracker.spread_recovered_blocks({1: 10, 2: 20})
    tracker.allocate_blocks_to_batch(100)
    assert [numbers_of(tracker, 100, stream_id) for stream_id in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2]]
    assert recovered(tracker) == {1: 20, 2: 10}


def test_last_batch_gets_all_recovered_blocks(live: Live) -> None:
    live().add_blocks(blocks(*range(10)))
    tracker = live()
    tracker.spread_recovered_blocks({1: 10})
    tracker.allocate_blocks_to_batch(100)
    assert tracker.unallocated_records() == {1: 90}
    tracker.seal(0)
    tracker.allocate_blocks_to_batch(200)
    assert [numbers_of(tracker, time_ms) for time_ms in (100, 200)] == [[0], list(range(1, 10))]
    assert (tracker.unallocated_records(), tracker.has_unallocated_blocks) == ({}, False)


def test_recovered_blocks_remain_when_their_allocation_cannot_be_logged(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live().add_blocks(blocks(0, 1, 2))
    tracker = live()
    tracker.spread_recovered_blocks({1: 10})
    with monkeypatch.context() as patch:
        fail_writes(patch, tracker)
        with pytest.raises(WriteAheadLogError):
            tracker.allocate_blocks_to_batch(100)
    tracker.allocate_blocks_to_batch(200)
    assert numbers_of(tracker, 200) == [0]
    assert recovered(tracker) == {1: 20}


def test_without_a_crash_nothing_is_left_over(live: Live) -> None:
    tracker = live()
    tracker.spread_recovered_blocks({1: 5})
    tracker.add_blocks(blocks(0, 1, 2))
    tracker.allocate_blocks_to_batch(100)
    assert numbers_of(tracker, 100) == [0, 1, 2]


def test_slow_disk_does_not_delay_queries(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = live()
    tracker.add_blocks(blocks(1))
    tracker.allocate_blocks_to_batch(100)
    # Holds the race open: the commit is blocked below the public `append`.
    write_ahead_log = tracker._write_ahead_log
    assert write_ahead_log is not None
    blocked, go_on, commit = threading.Event(), threading.Event(), write_ahead_log._commit

    def slow(data: bytes) -> None:
        blocked.set()
        assert go_on.wait(10)
        commit(data)

    monkeypatch.setattr(write_ahead_log, "_commit", slow)
    adding = [
        threading.Thread(target=tracker.add_blocks, args=(blocks(2),)),
        threading.Thread(target=tracker.allocate_blocks_to_batch, args=(200,)),
    ]
    for thread in adding:
        thread.start()
    assert blocked.wait(10)
    assert tracker.blocks_of_batch(100, 1) == blocks(1)
    assert tracker.processed(100) == blocks(1)
    assert not tracker.has_unallocated_blocks
    go_on.set()
    for thread in adding:
        thread.join(10)
    assert tracker.state.last_allocated_ms == 200


def test_no_block_is_lost_or_doubled_while_allocations_are_logged(live: Live) -> None:
    tracker = live()

    def add(first: int) -> None:
        for number in range(first, first + 100):
            tracker.add_blocks(blocks(number))

    threads = [threading.Thread(target=add, args=(first,)) for first in range(0, 500, 100)]
    for thread in threads:
        thread.start()
    batch = 0
    while any(thread.is_alive() for thread in threads):
        batch += 1
        tracker.allocate_blocks_to_batch(batch)
    tracker.allocate_blocks_to_batch(batch + 1)
    for each in (tracker, live(start=False)):
        allocated = [number for time in range(1, batch + 2) for number in numbers_of(each, time)]
        assert sorted(allocated) == list(range(500))


STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("allocate"), st.integers(0, 20)),
    st.tuples(st.just("clean up"), st.integers(0, 20)),
    st.tuples(st.just("launch"), st.integers(0, 9)),
    st.tuples(st.just("begin anew"), st.none()),
    st.tuples(st.just("die"), st.none()),
)


@given(st.lists(STEP, max_size=25))
@settings(max_examples=examples(40), derandomize=True, deadline=None)
def test_recovered_tracker_behaves_like_an_uninterrupted_one(steps: list[tuple[str, Any]]) -> None:
    clock = ManualClock(0)
    with TemporaryDirectory() as folder:

        def life() -> ReceivedBlockTracker:
            tracker = ReceivedBlockTracker(
                [1, 2], WriteAheadLog(Directory.of(folder), "run", Settings.parse({}), clock)
            )
            tracker.start()
            return tracker

        dying, living = life(), ReceivedBlockTracker([1, 2])
        try:
            for step, value in steps:
                if step == "die":
                    dying.close()
                    dying = life()
                elif step == "begin anew":
                    clock.advance(60_000)
                for tracker in (dying, living):
                    if step == "add":
                        tracker.add_blocks([block(number, 1 + number % 2) for number in value])
                    elif step == "allocate":
                        tracker.allocate_blocks_to_batch(value)
                    elif step == "clean up":
                        tracker.clean_up_batches(value)
                    elif step == "launch" and tracker is dying:
                        tracker.note_launches({1: value})
                    elif step == "launch":
                        # Without a write-ahead log the tracker notes no launches itself.
                        tracker.state.apply(receivers_launched({1: value}))
                assert dying.state.events() == living.state.events()
                assert batches(dying) == batches(living)
        finally:
            dying.close()


def test_state_written_as_events_is_restored() -> None:
    original, copy = Allocations(), Allocations()
    for time_ms in (100, 200, 300):
        original.apply(blocks_added([*blocks(*range(time_ms, time_ms + 5)), block(time_ms, 2, epoch=time_ms)]))
        original.apply(batch_allocated(time_ms, {1: [f"input-1-1-{time_ms + n}" for n in (0, 2)]}))
    original.apply(batches_cleaned(200))
    for event in original.events():
        copy.apply(event)
    assert copy.events() == original.events()
    # Block 100 was cleaned up, block 105 was never there.
    assert copy.new(blocks(100, 101, 105)) == blocks(105)


@given(st.lists(st.integers(0, 30)))
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_number_ranges_are_a_set(numbers: list[int]) -> None:
    ranges = NumberRanges()
    for number in numbers:
        ranges.add(number)
    assert {number for number in range(-1, 32) if number in ranges} == set(numbers)
    assert NumberRanges(ranges.edges).edges == sorted(set(ranges.edges))
    gaps = len({number for number in numbers if number - 1 not in numbers})
    assert len(ranges.edges) == 2 * gaps


@pytest.mark.parametrize("event", [{"what": "no such thing"}, {}, {"what": "blocks added", "blocks": [{"new": 1}]}])
def test_an_event_of_another_version_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Allocations().apply(event)


def test_damaged_write_ahead_log_fails_the_recovery_by_name(live: Live, tmp_path: Path) -> None:
    tracker = live()
    tracker.add_blocks(blocks(1))
    tracker.add_blocks(blocks(2))
    (file,) = (tmp_path / "log").iterdir()
    file.write_bytes(file.read_bytes().replace(b"input-1-1-1", b"input-1-1-7"))
    with pytest.raises(WriteAheadLogError, match=f"{file} is damaged at byte"):
        live()
    skipping = live(conf={"spark.penstock.checkpoint.onDamage": "skip"})
    assert waiting(skipping) == blocks(2)
    assert skipping.recovered.lost == 1
