"""``BlockDirectory``: what is accepted is there after a restart, in order, once; who may use it."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from tests.helpers.simulated_disk import synced_path

from penstock import Block, ConfigurationError, PenstockError
from penstock_structured import block_directory
from penstock_structured.block_directory import BlockDirectory, NumberedBlock, write_rate


def block(number: int, *values: str) -> Block:
    return Block(f"input-0-1-{number}", 0, len(values), pa.table({"value": list(values)}))


def add(directory: BlockDirectory, number: int, *values: str) -> None:
    directory.accept([directory.store(block(number, *values))])


def rows(directory: BlockDirectory, start: int, end: int) -> list[str]:
    return [
        value
        for each in directory.between(start, end)
        for value in directory.open(each.path.name).read_all().column(0).to_pylist()
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[BlockDirectory]:
    made = BlockDirectory(tmp_path / "query", "socket")
    yield made
    made.close()


def reopened(directory: BlockDirectory) -> BlockDirectory:
    directory.close()
    return BlockDirectory(directory.path, "socket")


def test_accepted_blocks_are_numbered_in_the_order_of_acceptance(directory: BlockDirectory) -> None:
    add(directory, 0, "a", "b")
    add(directory, 1, "c")
    assert rows(directory, 0, 2) == ["a", "b", "c"]
    assert (directory.first_number, directory.next_number) == (0, 2)
    assert [each.rows for each in directory.since(1)] == [1]


def test_a_repeated_acceptance_numbers_nothing_twice(directory: BlockDirectory) -> None:
    stored = directory.store(block(0, "a"))
    directory.accept([stored])
    directory.accept([stored])
    assert directory.next_number == 1


def test_a_restart_finds_accepted_blocks_and_deletes_what_was_only_stored(directory: BlockDirectory) -> None:
    add(directory, 0, "a")
    directory.store(block(1, "b"))
    assert any(each.name.startswith(".") for each in directory.path.iterdir())
    second = reopened(directory)
    assert rows(second, 0, 1) == ["a"]
    assert second.next_number == 1
    assert not any(each.name.startswith(".") for each in second.path.iterdir())
    second.close()


def test_numbers_never_come_twice_although_all_blocks_are_consumed(directory: BlockDirectory) -> None:
    add(directory, 0, "a")
    add(directory, 1, "b")
    directory.delete_before(2)
    assert directory.num_bytes == 0
    second = reopened(directory)
    add(second, 0, "c")
    assert (second.first_number, second.next_number) == (2, 3)
    second.close()


def test_an_empty_directory_is_refused_by_a_checkpoint_that_has_read_blocks(directory: BlockDirectory) -> None:
    for _attempt in range(2):
        with pytest.raises(PenstockError, match=r"at block 17, and the next block of .*query is 0: .*'blocks'"):
            directory.continue_at(17)


def test_a_directory_whose_blocks_are_all_consumed_is_continued(directory: BlockDirectory) -> None:
    add(directory, 0, "a")
    directory.delete_before(1)
    second = reopened(directory)
    second.continue_at(1)
    second.close()


def test_a_directory_whose_next_blocks_another_query_has_consumed_is_refused(directory: BlockDirectory) -> None:
    for number in range(3):
        add(directory, number, "a")
    directory.delete_before(2)
    with pytest.raises(PenstockError, match=r"continues at block 1, and .*query begins with block 2: .*'blocks'"):
        directory.continue_at(1)


def test_lost_blocks_are_skipped_with_a_warning_if_the_query_tolerates_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = BlockDirectory(tmp_path / "query", "socket", fails_on_loss=False)
    directory.continue_at(17)
    add(directory, 0, "a")
    assert [each.number for each in directory.between(16, 18)] == [17]
    directory.delete_before(18)
    directory.continue_at(17)
    assert caplog.text.count("blocks of the query lost") == 3
    directory.close()


def test_a_missing_block_is_named(directory: BlockDirectory) -> None:
    add(directory, 0, "a")
    add(directory, 1, "b")
    directory.since(0)[0].path.unlink()
    second = reopened(directory)
    with pytest.raises(PenstockError, match=r"block 0 of the query is missing in .*'blocks'"):
        second.between(0, 2)
    second.close()


def test_deleting_what_was_never_accepted_leaves_no_file(directory: BlockDirectory) -> None:
    stored = directory.store(block(0, "a"))
    directory.delete([stored.block_id, "input-0-1-99"])
    directory.accept([stored])
    assert directory.next_number == 0
    assert not [each for each in directory.path.iterdir() if each.suffix in (".arrow", ".stored")]


def test_a_disk_that_is_full_leaves_no_part_of_a_block(
    directory: BlockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_table: object, file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(block_directory, "write_block_file", write)
    with pytest.raises(OSError, match="No space left"):
        directory.store(block(0, "a"))
    assert not [each for each in directory.path.iterdir() if each.suffix == ".stored"]


def test_a_directory_in_use_is_refused_with_its_owner(
    directory: BlockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_directory, "_LOCK_TIMEOUT_S", 0.0)
    with pytest.raises(ConfigurationError, match=rf"in use by another query \(process {os.getpid()}\)"):
        BlockDirectory(directory.path, "socket")


def test_the_directory_of_another_receiver_is_refused(directory: BlockDirectory) -> None:
    directory.close()
    with pytest.raises(ConfigurationError, match=r"blocks of the receiver 'socket', and the query asks for 'file'"):
        BlockDirectory(directory.path, "file")


def test_the_receiver_is_compared_once_more_when_the_lock_was_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Holds the race open: another process gets the lock first.
    locked = block_directory._locked

    def after_another(path: Path) -> IO[str]:
        with monkeypatch.context() as patch:
            patch.setattr(block_directory, "_locked", locked)
            BlockDirectory(path, "socket").close()
        return locked(path)

    monkeypatch.setattr(block_directory, "_locked", after_another)
    with pytest.raises(ConfigurationError, match=r"blocks of the receiver 'socket', and the query asks for 'file'"):
        BlockDirectory(tmp_path / "query", "file")
    monkeypatch.undo()
    BlockDirectory(tmp_path / "query", "socket").close()


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigurationError, match=r"not a directory of blocks \(it contains 'thesis.tex'\)"):
        BlockDirectory(tmp_path, "socket")
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"option 'blocks', .*file, cannot be used: File exists"):
        BlockDirectory(tmp_path / "file", "socket")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
@pytest.mark.parametrize("step", ["_locked", "Directory.of"])
def test_a_directory_that_cannot_be_written_is_refused_with_the_reason_and_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(f"penstock_structured.block_directory.{step}", refuse)
        with pytest.raises(ConfigurationError, match=rf"option 'blocks', .*, cannot be used: {os.strerror(code)}"):
            BlockDirectory(tmp_path / "query", "socket")
    BlockDirectory(tmp_path / "query", "socket").close()


@pytest.mark.parametrize("durable", [True, False])
def test_the_names_of_new_directories_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced: set[Path] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(synced_path(descriptor)))
    BlockDirectory(tmp_path / "new" / "query", "socket", durable=durable).close()
    assert durable == ({tmp_path, tmp_path / "new", tmp_path / "new" / "query"} <= synced)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 1}'])
def test_a_damaged_description_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "penstock-source.json").write_text(text)
    with pytest.raises(ConfigurationError, match="is damaged"):
        BlockDirectory(tmp_path, "socket")


def test_another_format_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / "penstock-source.json").write_text('{"format": 2, "receiver": "socket"}')
    with pytest.raises(
        ConfigurationError, match="has format version 2 and this version of Penstock reads version 1: run"
    ):
        BlockDirectory(tmp_path, "socket")


def test_only_blocks_are_served(directory: BlockDirectory) -> None:
    (directory.path.parent / "secret").write_text("x")
    for name in ("../secret", "lock", "penstock-source.json", ""):
        with pytest.raises(PenstockError, match="does not exist"):
            directory.open(name)


def test_the_rate_that_another_process_writes_is_read(directory: BlockDirectory) -> None:
    assert directory.read_rate() is None
    write_rate(directory.path, 1234.5)
    assert directory.read_rate() == 1234.5
    (directory.path / "rate").write_text("fast")
    assert directory.read_rate() is None


def test_the_directory_is_private(directory: BlockDirectory) -> None:
    assert directory.path.stat().st_mode & 0o077 == 0


def test_a_block_is_offered_when_its_name_is_on_the_disk_and_a_retry_keeps_its_number(
    directory: BlockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    stored = [directory.store(block(number, "a")) for number in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(block_directory, "_sync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            directory.accept(stored)
    assert (directory.end, directory.since(0), directory.num_bytes) == (0, [], 0)
    directory.accept(stored)
    assert [each.number for each in directory.since(0)] == [0, 1]
    assert directory.end == directory.next_number == 2
    assert directory.num_bytes == sum(each.num_bytes for each in directory.since(0))


def test_a_closed_directory_stores_and_accepts_nothing(directory: BlockDirectory) -> None:
    stored = directory.store(block(0, "a"))
    directory.close()
    with pytest.raises(PenstockError, match="the query has stopped"):
        directory.accept([stored])
    with pytest.raises(PenstockError, match="the query has stopped"):
        directory.store(block(1, "b"))
    directory.close()


def test_blocks_that_a_kill_has_left_after_their_consumption_was_noted_are_deleted(directory: BlockDirectory) -> None:
    for number in range(3):
        add(directory, number, "a")
    (directory.path / "consumed").write_text("2")
    second = reopened(directory)
    assert [each.number for each in second.since(0)] == [2]
    assert second.first_number == 2
    assert len(list(directory.path.glob("*.arrow"))) == 1
    second.close()


def test_a_checkpoint_beyond_the_blocks_of_the_directory_is_refused(directory: BlockDirectory) -> None:
    add(directory, 0, "a")
    directory.continue_at(1)
    with pytest.raises(PenstockError, match=r"continues at block 7, and the next block of .* is 1: .*'blocks'"):
        directory.continue_at(7)


def test_a_directory_whose_description_was_being_written_at_a_kill_is_used(tmp_path: Path) -> None:
    for name in (".penstock-source.json.0123abcd.partial", "lock"):
        (tmp_path / name).write_text("")
    BlockDirectory(tmp_path, "socket").close()
    assert not list(tmp_path.glob("*.partial"))


def test_hidden_files_of_others_are_foreign_in_a_new_directory_and_left_alone_in_a_described_one(
    directory: BlockDirectory, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".profile").write_text("")
    with pytest.raises(ConfigurationError, match=r"not a directory of blocks \(it contains '.profile'\)"):
        BlockDirectory(tmp_path / "home", "socket")
    (directory.path / ".nfs0001").write_text("")
    reopened(directory).close()
    assert (directory.path / ".nfs0001").exists()


def test_batches_of_a_hundred_thousand_blocks_are_planned_in_a_moment(directory: BlockDirectory) -> None:
    # The public way writes a file per block, which is slow for this many.
    directory._blocks += [NumberedBlock(number, 1, 10, 0, directory.path) for number in range(100_000)]
    directory.next_number = 100_000
    began = time.process_time()
    for number in range(0, 1000, 10):
        assert len(directory.between(number, number + 10)) == 10
        assert directory.since(99_990)[0].number == 99_990
        assert directory.first_number == 0
    assert time.process_time() - began < 1


def test_two_threads_that_delete_never_note_the_smaller_number_last(
    directory: BlockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        add(directory, number, "a")
    # Holds the race open between two deletions.
    note, other = directory._note_consumed, threading.Thread(target=directory.delete_before, args=(2,))

    def slowly(number: int) -> bool:
        if number == 1:
            other.start()
            # It waits for this note.
            other.join(0.2)
        return note(number)

    monkeypatch.setattr(directory, "_note_consumed", slowly)
    directory.delete_before(1)
    other.join(30)
    directory.close()
    again = BlockDirectory(directory.path, "socket")
    assert (directory.path / block_directory._CONSUMED).read_text() == "2"  # nothing else reads the file
    assert again.first_number == 2
    again.close()
