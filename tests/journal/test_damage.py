"""A damaged write-ahead log: an older sound state, or a refusal that names file and offset; never anything else."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers.examples import examples

from penstock.conf import Settings
from penstock.errors import WriteAheadLogError
from penstock.journal import write_ahead_log
from penstock.journal.reader import Recovered
from penstock.journal.segment import event_record, frame, header_record, read_frames
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept

Keep = Callable[..., "Kept"]
Memory = type["MemoryDirectory"]

SKIP = {"spark.penstock.checkpoint.onDamage": "skip"}
HISTORY = list(range(9))


def written(keep: Keep, memory: Memory, clock: ManualClock, *, can_append: bool = True) -> dict[str, bytes]:
    """The segments of a log of nine events: four are in the state, the others in two segments."""
    directory = memory(can_append=can_append)
    kept = keep(directory)
    kept.add(0, 1, 2)
    clock.advance(60_000)
    kept.add(3)
    kept.add(4, 5, 6)
    # After a failed write the next segment overrides the end of this one.
    directory.fail_at(range(1, 2))
    kept.add(7)
    kept.add(8)
    kept.log.close()
    return {name: bytes(data) for name, data in directory.files.items()}


@pytest.fixture(params=[True, False], ids=["append", "close"])
def files(request: pytest.FixtureRequest, keep: Keep, memory: Memory, clock: ManualClock) -> dict[str, bytes]:
    return written(keep, memory, clock, can_append=request.param)


def changed(files: dict[str, bytes], name: str, data: bytes) -> dict[str, bytes]:
    return {**files, name: data}


def recovered(keep: Keep, directory: MemoryDirectory, conf: dict[str, str] | None = None) -> list[int] | str:
    """The recovered events, or the refusal."""
    try:
        return keep(directory, conf=conf, start=False).state.numbers
    except WriteAheadLogError as error:
        return str(error)


def test_written_log_has_several_segments(keep: Keep, memory: Memory, files: dict[str, bytes]) -> None:
    assert len(files) >= 2
    assert recovered(keep, memory(files)) == HISTORY


def test_truncation_at_any_byte_gives_an_older_state_or_is_refused_by_name(
    keep: Keep, memory: Memory, files: dict[str, bytes]
) -> None:
    outcomes = {"refused": 0, "older": 0, "whole": 0}
    for name, data in files.items():
        for size in range(len(data)):
            outcome = recovered(keep, memory(changed(files, name, data[:size])))
            if isinstance(outcome, str):
                assert "memory/segment-00000000" in outcome
                assert " is damaged at byte " in outcome
                assert "spark.penstock.checkpoint.onDamage=skip" in outcome
                outcomes["refused"] += 1
            else:
                assert outcome == HISTORY[: len(outcome)]
                # Only the end of the last segment may be missing unnoticed.
                assert outcome == HISTORY or name == max(files)
                outcomes["whole" if outcome == HISTORY else "older"] += 1
    assert all(outcomes.values()), outcomes


def test_bit_flip_gives_an_older_state_or_is_refused_by_name(
    keep: Keep, memory: Memory, files: dict[str, bytes]
) -> None:
    rng, number = random.Random(5), examples(250)
    refused = 0
    for _ in range(number):
        name = rng.choice(sorted(files))
        data = bytearray(files[name])
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        outcome = recovered(keep, memory(changed(files, name, bytes(data))))
        if isinstance(outcome, str):
            assert " is damaged at byte " in outcome
            refused += 1
        else:
            assert outcome == HISTORY[: len(outcome)]
            assert len(outcome) >= len(HISTORY) - 1
    assert refused > number / 10


def test_bit_flips_with_damage_skipped_give_a_subset_of_the_events(
    keep: Keep, memory: Memory, files: dict[str, bytes]
) -> None:
    rng = random.Random(6)
    for _ in range(examples(250)):
        name = rng.choice(sorted(files))
        data = bytearray(files[name])
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        outcome = recovered(keep, memory(changed(files, name, bytes(data))), SKIP)
        assert not isinstance(outcome, str)
        assert outcome == sorted(set(outcome) & set(HISTORY))


def test_missing_segment_gives_an_older_state_or_is_refused(
    keep: Keep, memory: Memory, files: dict[str, bytes]
) -> None:
    for name in files:
        outcome = recovered(keep, memory({other: data for other, data in files.items() if other != name}))
        # A segment may hold nothing that counts: a failed write.
        lost_the_end = name == max(files) and outcome == HISTORY[: len(outcome)]
        assert isinstance(outcome, str) or outcome == HISTORY or lost_the_end


@pytest.mark.parametrize(
    ("files", "outcome"),
    [
        # The driver died as it began the first segment.
        ({0: b"", 1: b""}, []),
        ({0: header_record("run-1", 1, 1)}, []),
        (
            {0: header_record("run-1", 2, 1)},
            "memory/segment-0000000000 is damaged at byte {header}: 1 of 1 records of the state cannot be read",
        ),
        (
            {0: b"?" + event_record(1, b'{"n":0}')},
            "memory/segment-0000000000 is damaged at byte 0: its header, without which nothing in it counts, cannot",
        ),
        (
            {0: b"?" + event_record(0, b'{"n":0}')},
            "memory/segment-0000000000 is damaged at byte 0: its header, without which nothing in it counts, cannot",
        ),
        ({1: b""}, "memory/segment-0000000001 is damaged at byte 0: all of it cannot be read"),
        (
            {1: header_record("run-1", 3) + event_record(3, b'{"n":2}')},
            "memory/segment-0000000001 is damaged at byte 0: the state before event 3 cannot be read",
        ),
    ],
)
def test_log_without_a_complete_state_is_sound_only_before_its_first_event(
    keep: Keep, memory: Memory, files: dict[int, bytes], outcome: list[int] | str
) -> None:
    found = recovered(keep, memory({f"segment-{number:010d}": data for number, data in files.items()}))
    if isinstance(outcome, str):
        assert isinstance(found, str)
        assert found.startswith(outcome.format(header=len(header_record("run-1", 2, 1))))
    else:
        assert found == outcome


def test_log_without_events_is_recovered_as_such(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory)
    assert keep(directory.copy(), start=False).recovered == Recovered(0)


def test_garbage_after_the_last_record_is_ignored(
    keep: Keep, memory: Memory, files: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    assert recovered(keep, memory(files)) == HISTORY
    assert "unfinished last write ignored" not in caplog.text
    kept = keep(memory(changed(files, max(files), files[max(files)] + b"garbage")), start=False)
    assert "unfinished last write ignored" in caplog.text
    assert kept.state.numbers == HISTORY
    assert kept.recovered.truncated_bytes == len(b"garbage")
    assert kept.recovered.damages == ()


def test_nothing_is_appended_to_a_truncated_segment(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    files = written(keep, memory, clock)
    directory = memory(changed(files, max(files), files[max(files)][:-1]))
    kept = keep(directory)
    assert kept.state.numbers == HISTORY[:-1]
    kept.add(100)
    assert len(directory.names()) == 1
    assert keep(directory.copy(), start=False).state.numbers == [*HISTORY[:-1], 100]


def middle_damaged(keep: Keep, memory: Memory) -> tuple[MemoryDirectory, int]:
    """A log with the third of five events damaged, and that event's offset."""
    directory = memory()
    keep(directory).add(0, 1, 2, 3, 4)
    (name,) = directory.names()
    third = read_frames(bytes(directory.files[name]))[3]
    directory.files[name][third.end - 1] ^= 1
    return directory, third.start


def test_damage_in_the_middle_is_refused_with_file_offset_and_advice(keep: Keep, memory: Memory) -> None:
    directory, position = middle_damaged(keep, memory)
    before = directory.copy().files
    with pytest.raises(WriteAheadLogError) as refused:
        keep(directory)
    assert str(refused.value) == (
        f"memory/segment-0000000000 is damaged at byte {position}: event 3 cannot be read. Restore the file, or "
        "continue without the lost records: spark.penstock.checkpoint.onDamage=skip"
    )
    assert directory.files == before


def test_skipped_damage_in_the_middle_is_counted(keep: Keep, memory: Memory) -> None:
    directory, position = middle_damaged(keep, memory)
    kept = keep(directory, conf=SKIP)
    assert kept.state.numbers == [0, 1, 3, 4]
    assert kept.recovered.lost == 1
    assert kept.recovered.damages == (
        f"memory/segment-0000000000 is damaged at byte {position}: event 3 cannot be read",
    )
    kept.add(5)
    assert keep(directory.copy(), start=False).state.numbers == [0, 1, 3, 4, 5]


def add_in_one_commit(kept: Kept, directory: MemoryDirectory, count: int) -> None:
    """Append events of which all but the first are queued while that is written."""
    begun, queued = threading.Event(), threading.Event()

    def hook(operation: str, _name: str) -> None:
        if operation == "write":
            begun.set()
            assert queued.wait(10)

    directory.hook = hook
    threads = [threading.Thread(target=kept.add, args=(number,)) for number in range(count)]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    # Nothing public reports how many events wait.
    with kept.log._changed:
        assert kept.log._changed.wait_for(lambda: len(kept.log._queue) == count - 1, 10)
    queued.set()
    for thread in threads:
        thread.join(10)


@pytest.mark.parametrize("position", [0.1, 0.5, 0.9])
def test_events_of_an_interrupted_commit_are_all_missing_without_damage(
    keep: Keep, memory: Memory, position: float
) -> None:
    directory = memory()
    kept = keep(directory)
    add_in_one_commit(kept, directory, 6)
    assert sorted(kept.state.numbers) == [0, 1, 2, 3, 4, 5]
    assert sorted(keep(directory.copy(), start=False).state.numbers) == [0, 1, 2, 3, 4, 5]
    # A power failure leaves any of the sectors of the last write.
    (name,) = directory.names()
    _header, first, group = read_frames(bytes(directory.files[name]))
    written = group.end - group.start
    directory.files[name][group.start + int(position * written)] ^= 1
    recovered = keep(directory, start=False)
    assert recovered.state.numbers == [0]
    assert recovered.recovered.truncated_bytes == len(directory.files[name]) - first.end


def test_queue_of_large_events_becomes_several_records(
    keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_ahead_log, "_MAX_EVENT_BYTES", 100)
    directory = memory()
    add_in_one_commit(keep(directory), directory, 10)
    (name,) = directory.names()
    # An event has 26 bytes, so three fit; header and first event are records of their own.
    assert len(read_frames(bytes(directory.files[name]))) == 2 + 3
    assert sorted(keep(directory.copy(), start=False).state.numbers) == list(range(10))


@pytest.mark.parametrize("rebooted", [True, False])
def test_events_that_a_power_failure_lost_are_damage_only_if_the_host_has_not_restarted(
    memory: Memory, clock: ManualClock, list_state: Callable[[], Any], rebooted: bool
) -> None:
    for durability in ("flush", "fsync"):
        directory = memory()
        settings = Settings.parse({"spark.penstock.writeAheadLog.durability": durability})
        log = write_ahead_log.WriteAheadLog(directory, "run-1", settings, clock)
        log.recover(list_state())
        log.start()
        for number in range(5):
            log.append({"n": number})
        log.close()
        (name,) = directory.names()
        frames = read_frames(bytes(directory.files[name]))
        directory.files[name][frames[2].start] ^= 1
        del directory.files[name][frames[5].start :]
        state = list_state()
        log = write_ahead_log.WriteAheadLog(directory, "run-1", settings, clock, 5, {"n": -1}, rebooted=rebooted)
        if rebooted and durability == "flush":
            recovered = log.recover(state)
            assert [event["n"] for event in state.applied] == [0, 2, 3, -1]
            assert recovered.lost == 2
        else:
            with pytest.raises(WriteAheadLogError, match="event 2 cannot be read"):
                log.recover(state)


def test_damaged_state_is_refused_or_counted(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory).add(0, 1, 2)
    keep(directory).add(3)
    (name,) = directory.names()
    second = read_frames(bytes(directory.files[name]))[2]
    directory.files[name][second.start] ^= 1
    with pytest.raises(
        WriteAheadLogError, match=rf"{name} is damaged at byte {second.start}: 1 of 3 records of the state"
    ):
        keep(directory, start=False)
    kept = keep(directory, conf=SKIP, start=False)
    assert kept.state.numbers == [0, 2, 3]
    assert kept.recovered.lost == 1


def test_damaged_state_with_later_events_is_not_replaced_by_an_older_state(
    keep: Keep, memory: Memory, clock: ManualClock
) -> None:
    directory = memory()
    kept = keep(directory)

    directory.fail("delete", error=PermissionError("not yours"))
    kept.add(0, 1)
    clock.advance(60_000)
    kept.add(2)
    kept.add(3)
    _, new = directory.names()
    files = {name: bytes(data) for name, data in directory.files.items()}
    assert recovered(keep, memory(files)) == [0, 1, 2, 3]
    damaged = bytearray(files[new])
    damaged[read_frames(files[new])[1].start] ^= 1
    assert f"{new} is damaged" in str(recovered(keep, memory(changed(files, new, bytes(damaged)))))
    # Truncated within its state it looks unfinished, and the older state counts.
    assert recovered(keep, memory(changed(files, new, files[new][:100]))) == [0, 1, 2]


def test_truncated_state_is_refused_if_there_is_no_older_one(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory).add(0, 1, 2)
    keep(directory)
    (name,) = directory.names()
    del directory.files[name][-1]
    with pytest.raises(WriteAheadLogError, match="1 of 3 records of the state cannot be read"):
        keep(directory, start=False)
    assert keep(directory, conf=SKIP, start=False).state.numbers == [0, 1]


def test_unreadable_segment_is_refused_unless_it_is_the_first(keep: Keep, memory: Memory) -> None:
    assert keep(memory({"segment-0000000000": b""}), start=False).state.numbers == []
    assert keep(memory({"segment-0000000000": b"torn"}), start=False).state.numbers == []
    with pytest.raises(WriteAheadLogError, match="segment-0000000007 is damaged at byte 0: all of it"):
        keep(memory({"segment-0000000007": b"torn"}), start=False)


def test_truncation_below_the_checkpoint_is_refused(keep: Keep, memory: Memory, files: dict[str, bytes]) -> None:
    name, known = max(files), len(HISTORY)
    assert keep(memory(files), start=False).log.last_number == known
    for size in range(len(files[name])):
        damaged = changed(files, name, files[name][:size])
        with pytest.raises(WriteAheadLogError, match=r"memory/.*onDamage=skip"):
            keep(memory(damaged), start=False, known=known)
    # An event that no checkpoint counted may have been truncated while it was written.
    kept = keep(memory(changed(files, name, files[name][:-1])), start=False, known=known - 1)
    assert kept.state.numbers == HISTORY[:-1]
    assert not kept.recovered.is_whole


def test_deleted_log_is_refused_if_a_checkpoint_counted_its_events(keep: Keep, memory: Memory) -> None:
    message = "memory/ ends with event 0, and a checkpoint knows of 1: .*onDamage=skip"
    for files in ({}, {"segment-0000000000": b""}):
        with pytest.raises(WriteAheadLogError, match=message):
            keep(memory(files), known=1)
    # So is the log of another run.
    directory = memory()
    keep(directory).add(0, 1)
    with pytest.raises(WriteAheadLogError, match=message):
        keep(directory.copy(), run="run-2", known=1)


@pytest.mark.parametrize("conf", [SKIP, {"spark.penstock.writeAheadLog.durability": "none"}], ids=["skip", "none"])
def test_missing_end_is_counted_and_substituted_and_no_number_reused(
    keep: Keep, memory: Memory, conf: dict[str, str]
) -> None:
    directory = memory()
    keep(directory).add(0, 1, 2, 3)
    (name,) = directory.names()
    directory.files[name][-1] ^= 1
    kept = keep(directory.copy(), conf=conf, known=6)
    assert kept.state.numbers == [0, 1, 2, -1]
    assert kept.recovered.lost == 3
    assert kept.recovered.damages == ("the write-ahead log in memory/ ends with event 3, and a checkpoint knows of 6",)
    kept.add(4)
    assert kept.log.last_number == 7
    kept.log.close()
    # Events that older checkpoints counted are not missing again.
    again = keep(memory({name: bytes(data) for name, data in kept.directory.files.items()}), start=False, known=6)  # type: ignore[attr-defined]
    assert again.state.numbers == [0, 1, 2, -1, 4]
    assert again.recovered.is_whole


def test_last_number_counts_only_committed_events(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    assert kept.log.last_number == 0
    kept.add(0)
    assert kept.log.last_number == 1
    directory.fail_at(range(100))
    with pytest.raises(WriteAheadLogError):
        kept.add(1)
    assert kept.log.last_number == 1


def test_other_files_in_the_directory_are_ignored(keep: Keep, memory: Memory) -> None:
    directory = memory({"notes.txt": b"mine", "segment-12": b"?", "segment-0000000001.bak": b"?"})
    keep(directory).add(1)
    assert keep(directory.copy(), start=False).state.numbers == [1]
    assert {"notes.txt", "segment-12", "segment-0000000001.bak"} < set(directory.names())


def test_segment_of_another_version_is_refused_by_version(keep: Keep, memory: Memory) -> None:
    directory = memory({"segment-0000000000": frame(b'{"version":2,"run":"run-1"}')})
    with pytest.raises(
        WriteAheadLogError, match="its header has format version 2 and this version of Penstock reads version 1: run"
    ):
        keep(directory, start=False)


@pytest.mark.parametrize(
    "payload",
    [b'{"version":2,"run":"run-1"}', b"[1,2]", b"not JSON", b'{"other":1}', b'[1,{},"more"]', b"3"],
)
def test_sound_record_of_another_format_is_refused_by_name(keep: Keep, memory: Memory, payload: bytes) -> None:
    with pytest.raises(WriteAheadLogError, match="memory/segment-0000000000 was written by another version"):
        keep(memory({"segment-0000000000": frame(payload)}), conf=SKIP, start=False)
