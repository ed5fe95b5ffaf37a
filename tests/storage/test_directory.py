"""A directory behaves the same on a local disk and through Arrow, except as tested here."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import fs
from tests.helpers.simulated_disk import synced_path

from penstock.errors import ConfigurationError
from penstock.storage import uri
from penstock.storage.directory import Directory, Durability, LocalDirectory, RemoteDirectory

Make = Callable[[Path], Directory]


def local(path: Path) -> Directory:
    return Directory.of(str(path))


def behind_arrow(path: Path) -> Directory:
    return RemoteDirectory(fs.LocalFileSystem(), str(path), f"there:{path}")


@pytest.fixture(params=[local, behind_arrow], ids=["local", "arrow"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    make: Make = request.param
    return make(tmp_path / "new" / "folder")


def test_reading_creates_no_directory(folder: Directory, tmp_path: Path) -> None:
    assert folder.names() == []
    assert folder.child("deeper").names() == []
    folder.delete("nothing")
    with pytest.raises(FileNotFoundError, match="nothing"):
        folder.read("nothing")
    assert list(tmp_path.iterdir()) == []


def test_file_is_written_read_replaced_and_deleted(folder: Directory) -> None:
    folder.write("a", b"one")
    folder.write("a", b"another", sync=True)
    folder.write("b.gz", b"plain")
    assert folder.read("a") == b"another"
    assert folder.read("b.gz") == b"plain"
    assert folder.names() == ["a", "b.gz"]
    assert folder.delete("a")
    assert not folder.delete("a")
    assert folder.names() == ["b.gz"]


def test_file_is_copied_to_a_local_path(folder: Directory, tmp_path: Path) -> None:
    folder.write("a", b"one")
    folder.copy_to("a", tmp_path / "copy")
    folder.write("a", b"another")
    folder.copy_to("a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"another"
    with pytest.raises(FileNotFoundError):
        folder.copy_to("nothing", tmp_path / "copy")


def test_names_are_sorted_and_without_subdirectories(folder: Directory) -> None:
    folder.write("b", b"")
    folder.write("a", b"")
    folder.child("folder").write("c", b"")
    assert folder.names() == ["a", "b"]
    assert folder.child("folder").names() == ["c"]


def test_time_of_the_last_change_is_known(folder: Directory) -> None:
    assert folder.changed_s() == {}
    folder.write("a", b"")
    folder.child("folder").write("c", b"")
    (name,), (changed_s,) = zip(*folder.changed_s().items(), strict=True)
    assert name == "a"
    assert abs(changed_s - time.time()) < 60


def test_appended_pieces_make_one_file(folder: Directory) -> None:
    appender = folder.append("log.gz")
    appender.write(b"one")
    appender.commit(Durability.FLUSH)
    appender.write(b"two")
    appender.commit(Durability.FSYNC)
    appender.commit(Durability.NONE)
    appender.close()
    appender.close()
    assert folder.read("log.gz") == b"onetwo"


def test_error_names_the_file(folder: Directory, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("a file is in the way")
    for act in (
        lambda: folder.write("a", b"x"),
        lambda: folder.append("a"),
        lambda: folder.read("a"),
    ):
        with pytest.raises(OSError, match="new/folder"):
            act()


def test_committed_data_is_readable_before_close_on_a_local_disk(tmp_path: Path) -> None:
    folder = local(tmp_path)
    assert folder.can_append
    appender = folder.append("log")
    appender.write(b"one")
    assert folder.read("log") == b""
    appender.commit(Durability.NONE)
    assert folder.read("log") == b""
    appender.commit(Durability.FLUSH)
    assert folder.read("log") == b"one"
    appender.close()
    assert not behind_arrow(tmp_path).can_append


def test_append_refuses_an_existing_local_file(tmp_path: Path) -> None:
    local(tmp_path).write("log", b"one")
    with pytest.raises(FileExistsError, match="log"):
        local(tmp_path).append("log")
    assert local(tmp_path).read("log") == b"one"


def test_local_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = local(tmp_path)
    folder.write("a", b"old")

    def fail(_descriptor: int) -> None:
        assert folder.names() == ["a"]
        assert folder.read("a") == b"old"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        folder.write("a", b"new", sync=True)
    assert folder.read("a") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_commit_syncs_file_and_names_only_with_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(str(synced_path(descriptor))))
    appender = local(tmp_path / "a" / "b").append("log")
    appender.commit(Durability.FLUSH)
    assert synced == []
    appender.commit(Durability.FSYNC)
    # The file, the folders whose names another process may have created, and its name.
    assert synced[0] == str(tmp_path / "a" / "b" / "log")
    assert synced[-1] == str(tmp_path / "a" / "b")
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path.parent)} < set(synced)
    del synced[:]
    appender.commit(Durability.FSYNC)
    assert synced == [str(tmp_path / "a" / "b" / "log")]
    appender.close()


def test_sync_covers_what_others_have_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    local(tree / "0").write("a", b"one")
    local(tree / "1").write("b", b"two")
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(str(synced_path(descriptor))))
    done = local(tree).sync()
    files = {str(tree / "0" / "a"), str(tree / "1" / "b")}
    assert done == files
    assert {*files, str(tree), str(tree / "0"), str(tree / "1"), str(tmp_path)} <= set(synced)
    del synced[:]
    local(tree / "1").write("c", b"three")
    local(tree).sync(done)
    assert str(tree / "1" / "c") in synced
    assert files.isdisjoint(synced)
    assert local(tmp_path / "nothing").sync(done) == set()


def test_deleted_files_are_not_remembered_by_a_sync(tmp_path: Path) -> None:
    done: Collection[str] = ()
    for number in range(100):
        local(tmp_path).write(f"state-{number}", b"")
        done = local(tmp_path).sync(done)
        local(tmp_path).delete(f"state-{number}")
    assert len(done) == 1


def test_path_and_file_uri_are_local(tmp_path: Path) -> None:
    for text in (f"{tmp_path}/a b", f"file://{tmp_path}/a%20b"):
        folder = Directory.of(text)
        assert isinstance(folder, LocalDirectory)
        assert folder.location("c") == str(tmp_path / "a b" / "c")


def test_relative_path_is_resolved_when_the_directory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Directory.of("there")
    monkeypatch.chdir("/")
    assert folder.location() == str(tmp_path / "there")


def test_remote_directory_keeps_its_uri(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
        asked.append(uri)
        return fs.LocalFileSystem(), str(tmp_path)

    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=from_uri))
    monkeypatch.setattr(uri, "connect", uri.connect.__wrapped__)  # past the cache
    folder = Directory.of("s3a://bucket/there?region=eu")
    assert folder.child("log").location("a") == "s3://bucket/there/log/a"
    Directory.of("hdfs://host:8020/there")
    assert asked == ["s3://bucket/there?region=eu", "hdfs://host:8020/there"]
    assert folder.names() == []


def test_location_without_file_system_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        Directory.of("nonsense://there/is")


def test_error_of_arrow_becomes_an_oserror_with_the_location(tmp_path: Path) -> None:
    class Broken:
        def get_file_info(self, _selector: object) -> None:
            raise pa.ArrowInvalid("cannot list")

    with pytest.raises(OSError, match="there: cannot list"):
        RemoteDirectory(Broken(), "/x", "there").names()


def test_delete_partial_leaves_finished_and_other_hidden_files(folder: Directory, tmp_path: Path) -> None:
    folder.delete_partial()
    folder.write("a", b"whole")
    folder.write(".hidden", b"others'")
    (tmp_path / "new" / "folder" / ".a.0123abcd.partial").write_bytes(b"a part")
    folder.delete_partial()
    left = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert {"a", ".hidden"} <= left
    assert ".a.0123abcd.partial" not in left


def test_file_is_moved_into_a_subdirectory(folder: Directory) -> None:
    folder.write("a", b"one")
    assert folder.move("a", "aside")
    assert not folder.move("a", "aside")
    assert folder.names() == []
    assert folder.child("aside").read("a") == b"one"


def test_failed_write_leaves_the_old_file(folder: Directory) -> None:
    def fail() -> None:
        with folder.create("a") as file:
            file.write(b"a part")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert folder.all_names() == []
    folder.write("a", b"old")
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert folder.all_names() == ["a"]
    assert folder.read("a") == b"old"
    folder.write("a", b"new")
    assert folder.read("a") == b"new"


def test_many_threads_write_with_sync_into_a_new_directory(tmp_path: Path) -> None:
    folder = local(tmp_path.joinpath(*"abcdefgh"))
    barrier = threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait(10)
        for each in range(5):
            folder.write(f"{number}-{each}", b"x", sync=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len(folder.names()) == 40
