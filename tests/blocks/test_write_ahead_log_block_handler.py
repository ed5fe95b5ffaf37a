"""``WriteAheadLogBlockHandler``: a block's file appears whole or not at all, and is read by its reference anywhere."""

from __future__ import annotations

import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from tests.helpers.simulated_disk import synced_path

from penstock import Block, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, file_name, stream_directory
from penstock.errors import BlockGoneError, ConfigurationError, StoreError
from penstock.storage import uri
from penstock.storage.directory import Directory
from penstock.wire.token import Token
from penstock.worker.block_reader import ReadBlocks, read_block

MakeBlock = Callable[..., Block]
TOKEN = Token("t")


@pytest.fixture
def log(checkpoint_directory: str) -> WriteAheadLogBlockHandler:
    return WriteAheadLogBlockHandler(stream_directory(checkpoint_directory, 0))


@pytest.fixture
def local(tmp_path: Path) -> WriteAheadLogBlockHandler:
    return WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0))


def names(log: WriteAheadLogBlockHandler) -> list[str]:
    return Directory.of(log.directory).names()


def reference(stored: StoredBlock) -> BlockReference:
    return BlockReference(stored.block_id, stored.path, stored.num_records, "", stored.stream_id, stored.checksum)


def records(stored: StoredBlock) -> list[Any]:
    return list(arrow_form.records(read_block(reference(stored), TOKEN)))


@pytest.mark.parametrize(
    "block",
    [["a", "b"], [1, "mixed", None], [], list(range(40_000)), [b"x" * 3_000_000] * 3],
    ids=["typed", "pickled", "none", "many", "large"],
)
def test_stored_records_are_read_back(log: WriteAheadLogBlockHandler, make_block: MakeBlock, block: list[Any]) -> None:
    stored = log.store(make_block(block))
    assert records(stored) == block
    assert names(log) == ["input-0-1-0.arrow"]


def test_large_remote_files_are_not_held_in_memory(
    log: WriteAheadLogBlockHandler, make_block: MakeBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_form, "_IN_MEMORY_BYTES", 1000)
    block = [str(n) for n in range(40_000)]
    assert records(log.store(make_block(block))) == block


def test_stored_block_has_path_size_metadata_and_checksum(tmp_path: Path, make_block: MakeBlock) -> None:
    log = WriteAheadLogBlockHandler(stream_directory((tmp_path / "a b").as_uri(), 0))
    stored = log.store(make_block(["a", "b"], metadata={"offset": 5}))
    path = tmp_path / "a b" / "receivedData" / "0" / "input-0-1-0.arrow"
    assert stored == StoredBlock(
        "input-0-1-0", 0, 2, path.stat().st_size, str(path), {"offset": 5}, zlib.crc32(path.read_bytes())
    )


def test_blocks_are_read_in_any_order_and_in_one_partition(
    log: WriteAheadLogBlockHandler, make_block: MakeBlock
) -> None:
    groups = [[f"record {10 * group + n}" for n in range(10)] for group in range(10)]
    stored = [log.store(make_block(group, f"input-0-1-{number}")) for number, group in enumerate(groups)]
    assert [block.num_records for block in stored] == [10] * 10
    assert names(log) == sorted(file_name(block.block_id) for block in stored)
    # In any order, and all in one partition.
    for number in (7, 0, 9, 3):
        assert records(stored[number]) == groups[number]
    partition = tuple(map(reference, stored))
    assert list(ReadBlocks(TOKEN)(0, [partition])) == [record for group in groups for record in group]


def test_columns_with_several_dictionaries_are_read_back(log: WriteAheadLogBlockHandler) -> None:
    words = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()])
    table = arrow_form.from_columns(pa.table({"word": words, "count": [1, 2, 3]}))
    stored = log.store(Block("input-0-1-0", 0, 3, table))
    assert [tuple(row) for row in records(stored)] == [("a", 1), ("b", 2), ("c", 3)]


def test_nothing_is_created_before_the_first_block(tmp_path: Path) -> None:
    log = WriteAheadLogBlockHandler(stream_directory(str(tmp_path / "later"), 0))
    assert (log.delete(["input-0-1-0"]), log.remove_unknown(set()), names(log)) == (0, [], [])
    assert list(tmp_path.iterdir()) == []


def test_block_stored_again_replaces_the_first(log: WriteAheadLogBlockHandler, make_block: MakeBlock) -> None:
    log.store(make_block(["old"]))
    assert records(log.store(make_block(["new"]))) == ["new"]
    assert names(log) == ["input-0-1-0.arrow"]


def test_deleted_block_is_gone_or_skipped(log: WriteAheadLogBlockHandler, make_block: MakeBlock) -> None:
    stored = log.store(make_block([1]))
    assert log.delete(["input-0-1-0"]) == 1
    with pytest.raises(BlockGoneError) as caught:
        records(stored)
    assert stored.path in str(caught.value)
    assert list(ReadBlocks(TOKEN, skips_lost=True)(0, [(reference(stored),)])) == []


def test_block_without_checksum_is_read_unchecked(log: WriteAheadLogBlockHandler, make_block: MakeBlock) -> None:
    stored = log.store(make_block(["a"]))
    without = StoredBlock(stored.block_id, 0, 1, stored.num_bytes, stored.path)
    assert records(without) == ["a"]
    log.delete([stored.block_id])
    with pytest.raises(BlockGoneError):
        records(without)


def test_failing_file_system_is_not_a_lost_block(
    make_block: MakeBlock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Unreachable:
        def open_input_file(self, _path: str) -> Any:
            raise OSError("no route to the store")

    monkeypatch.setattr(uri, "connect", lambda _uri: (Unreachable(), "x"))
    reading = ReadBlocks(TOKEN, skips_lost=True)
    with pytest.raises(OSError, match="no route to the store"):
        list(reading(0, [(BlockReference("input-0-1-0", "s3://bucket/x/input-0-1-0.arrow", 1, "", 0, 5),)]))


# -- deleting --


def test_delete_leaves_other_files(log: WriteAheadLogBlockHandler, make_block: MakeBlock, tmp_path: Path) -> None:
    for number in range(3):
        log.store(make_block([number], f"input-0-1-{number}"))
    assert log.delete(["input-0-1-0", "input-0-1-2", "input-0-9-9"]) == 2
    assert log.delete(["input-0-1-0", "../0/input-0-1-1", "/input-0-1-1", "..", "", "\0", "x" * 5000]) == 0
    assert names(log) == ["input-0-1-1.arrow"]


def test_open_block_can_be_read_after_its_deletion(local: WriteAheadLogBlockHandler, make_block: MakeBlock) -> None:
    block = [str(n) for n in range(40_000)]
    stored = local.store(make_block(block))
    batches = read_block(reference(stored), TOKEN)
    first = next(batches)
    assert local.delete([stored.block_id]) == 1
    assert list(arrow_form.records([first, *batches])) == block


def test_failed_deletions_are_logged_once(
    local: WriteAheadLogBlockHandler, make_block: MakeBlock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    local.store(make_block([1], "input-0-1-1"))
    directory = tmp_path / "receivedData" / "0"
    for number in (0, 2):
        (directory / f"input-0-1-{number}.arrow").mkdir()
    assert local.delete(["input-0-1-0", "input-0-1-1", "input-0-1-2"]) == 1
    (said,) = caplog.records
    assert "block files left in place" in said.getMessage()
    assert "files=2" in said.getMessage()


def test_sweep_deletes_only_unknown_blocks_of_the_stream(log: WriteAheadLogBlockHandler, make_block: MakeBlock) -> None:
    for number in range(4):
        log.store(make_block([number], f"input-0-{number}-0"))
    others = ["input-1-1-0.arrow", "input-0-1-0.arrow.bak", "notes.txt", "input-0-1.arrow", "input-0-1-7"]
    for name in others:
        Directory.of(log.directory).write(name, b"others'")
    known_names = {"input-0-1-0.arrow", "input-0-3-0.arrow", "input-0-8-8.arrow"}
    assert log.remove_unknown(known_names) == ["input-0-0-0.arrow", "input-0-2-0.arrow"]
    assert names(log) == sorted([*others, "input-0-1-0.arrow", "input-0-3-0.arrow"])
    assert log.remove_unknown(known_names) == []


def test_set_aside_blocks_are_kept_and_not_swept(
    log: WriteAheadLogBlockHandler, make_block: MakeBlock, caplog: pytest.LogCaptureFixture
) -> None:
    stored = [log.store(make_block([number], f"input-0-1-{number}")) for number in range(3)]
    known = {"input-0-1-0.arrow"}
    assert log.remove_unknown(known, "aside-1") == ["input-0-1-1.arrow", "input-0-1-2.arrow"]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "set aside" in said
    assert "files=2" in said
    assert f"{log.directory}/aside-1" in said
    assert log.remove_unknown(known) == []
    assert log.remove_unknown(known, "aside-2") == []
    assert names(log) == ["input-0-1-0.arrow"]
    if log.directory.startswith("mock"):
        return  # another directory of it is another memory
    # As they were.
    aside = evolve(stored[2], path=f"{log.directory}/aside-1/{stored[2].block_id}.arrow")
    assert records(aside) == [2]


@pytest.mark.parametrize("aside", ["", "aside"])
def test_unfinished_files_of_killed_writers_are_deleted(
    local: WriteAheadLogBlockHandler, make_block: MakeBlock, tmp_path: Path, aside: str
) -> None:
    local.store(make_block([1]))
    directory = tmp_path / "receivedData" / "0"
    for name in (".input-0-5-3.arrow.0123abcd.partial", ".input-0-1-7.arrow", ".bashrc"):
        (directory / name).write_bytes(b"a part")
    known_names = {"input-0-1-0.arrow"}
    assert local.remove_unknown(known_names, aside) == []
    assert sorted(path.name for path in directory.iterdir()) == [".bashrc", ".input-0-1-7.arrow", "input-0-1-0.arrow"]


def test_sweep_ignores_links_and_directories(tmp_path: Path) -> None:
    directory = tmp_path / "receivedData" / "0"
    directory.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text("x")
    (directory / "input-0-1-0.arrow").symlink_to(outside)
    (directory / "input-0-1-1.arrow").mkdir()
    (directory / "input-0-1-1.arrow" / "input-0-1-2.arrow").write_text("x")
    assert WriteAheadLogBlockHandler(str(directory)).remove_unknown(set()) == []
    assert outside.exists()
    assert len(list(directory.rglob("*"))) == 3


def test_sweep_that_cannot_list_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "receivedData").write_text("no directory")
    assert WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0)).remove_unknown(set()) == []
    assert "receiver write-ahead log not swept" in caplog.text


# -- failed writes --


def test_name_of_another_directory_is_refused(
    local: WriteAheadLogBlockHandler, make_block: MakeBlock, tmp_path: Path
) -> None:
    for name in ("../input-0-1-0", "x", "input-0-1", "/input-0-1-0"):
        with pytest.raises(StoreError, match="is not the name of a block"):
            local.store(make_block([1], name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("after", [1, 3])
def test_failed_write_leaves_nothing(
    log: WriteAheadLogBlockHandler,
    make_block: MakeBlock,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    after: int,
) -> None:
    log.store(make_block(["before"], "input-0-1-9"))
    # The fault is injected below the writer of a block, after some of its bytes.
    write = arrow_form._Summed.write
    calls = iter(range(10**6))

    def failing(self: Any, data: Any) -> None:
        write(self, data)
        if next(calls) >= after:
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(arrow_form._Summed, "write", failing)  # the injected fault
        with pytest.raises(type(error)) as caught:
            log.store(make_block([str(n) for n in range(40_000)]))
    assert getattr(caught.value, "errno", None) == getattr(error, "errno", None)
    assert names(log) == ["input-0-1-9.arrow"]
    assert len(records(log.store(make_block([str(n) for n in range(40_000)])))) == 40_000


def test_failed_replace_leaves_the_old_block(
    local: WriteAheadLogBlockHandler, make_block: MakeBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = local.store(make_block(["old"]))

    def fail(_path: Path, _target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="Input/output error"):
        local.store(make_block(["new"]))
    assert names(local) == ["input-0-1-0.arrow"]
    assert records(old) == ["old"]


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that this process may only read. Root may write anywhere, so it becomes another user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if user == 0:
                os.seteuid(0)
            folder.chmod(0o755)


def test_read_only_directory_is_named_in_the_error(as_nobody: Path, make_block: MakeBlock) -> None:
    with pytest.raises(PermissionError, match="receivedData"):
        WriteAheadLogBlockHandler(stream_directory(str(as_nobody), 0)).store(make_block([1]))
    with pytest.raises(PermissionError, match=r"input-0-1-0\.arrow\..*\.partial"):
        WriteAheadLogBlockHandler(str(as_nobody)).store(make_block([1]))
    assert list(as_nobody.iterdir()) == []


def test_file_instead_of_the_directory_is_an_error(make_block: MakeBlock, tmp_path: Path) -> None:
    (tmp_path / "receivedData").write_text("x")
    with pytest.raises(OSError, match="receivedData"):
        WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 0)).store(make_block([1]))
    assert (tmp_path / "receivedData").read_text() == "x"


def test_removed_directory_is_created_again(log: WriteAheadLogBlockHandler, make_block: MakeBlock) -> None:
    log.store(make_block(["before"], "input-0-1-0"))
    if uri.is_remote(log.directory):
        system, path = uri.connect(log.directory)
        system.delete_dir(path)
        with pytest.raises(OSError, match="input-0-1-1"):
            log.store(make_block(["after"], "input-0-1-1"))
    else:
        for file in Path(log.directory).iterdir():
            file.unlink()
        Path(log.directory).rmdir()
    # A store is tried several times.
    assert records(log.store(make_block(["after"], "input-0-1-1"))) == ["after"]


def test_uri_without_file_system_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="nosuch"):
        WriteAheadLogBlockHandler(stream_directory("nosuch://host/check", 0))


# -- durability --


@pytest.mark.parametrize(("durability", "syncs"), [("none", False), ("flush", False), ("fsync", True)])
def test_fsync_covers_new_directories_the_file_and_its_name(
    tmp_path: Path, make_block: MakeBlock, monkeypatch: pytest.MonkeyPatch, durability: str, syncs: bool
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        # What is not handed to the operating system yet is not synced.
        assert is_directory or os.fstat(descriptor).st_size > 40_000
        synced.append(str(synced_path(descriptor)) if is_directory else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    log = WriteAheadLogBlockHandler(stream_directory(str(tmp_path / "check"), 0), durability)
    stored = log.store(make_block(["x" * 1000] * 50))
    # The directories, which another process may have created, then the file, then its directory after the rename.
    home = tmp_path / "check" / "receivedData" / "0"
    last = ["file", str(home)] if syncs else []
    assert synced[-2:] == last
    assert syncs == ({str(tmp_path), str(home.parent), str(home.parent.parent)} <= set(synced[:-2]))
    del synced[:]
    log.store(make_block(["x" * 1000] * 50, "input-0-1-1"))
    assert synced == last
    assert len(records(stored)) == 50
