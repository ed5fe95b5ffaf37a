"""``StateStore`` compared with a dictionary, on the local and on a remote file system."""

from __future__ import annotations

import os
import pickle
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.helpers.behind_arrow import directory_of
from tests.helpers.examples import examples

from penstock.spi import Directory, pickle_value
from penstock_state.state_store import StateGoneError, StateStore, StateTooLargeError, StateVersion, StoredState

# None removes.
Changes = dict[Any, str | None]

LONG = "the same object twice"
# Equal, and not the same object: a tuple of both is pickled otherwise than a tuple of one of them, twice.
COPY = "".join(LONG)[:1] + LONG[1:]
# Keys that are equal and pickled differently.
SHARED, UNSHARED = (LONG, LONG), (LONG, COPY)
KEYS = st.sampled_from(
    [1, 1.0, True, 0, False, -1, -2, "a", "1", b"a", None, (), (1,), (True,), (1.0, "a"), SHARED, UNSHARED, sys.maxsize]
)
CHANGES = st.dictionaries(KEYS, st.none() | st.text("xyz", max_size=2), max_size=8)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark's hash of keys asks for it
    (tmp_path / "local").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'local'},/other")
    monkeypatch.setattr(Directory, "of", directory_of)


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """The directory of the copies of remote files."""
    return tmp_path / "local" / "penstock-state"


@pytest.fixture(params=["local", "remote"])
def new_home(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes directories; remote ones go through ``pyarrow.fs``, whose local file system stands for all."""

    def new() -> str:
        home = tempfile.mkdtemp(dir=tmp_path)
        return home if request.param == "local" else Path(home).as_uri()

    return new


class Store:
    """A store with the changes of a ``mapWithState`` batch applied to it."""

    def __init__(self, home: str) -> None:
        self.store = StateStore.of(home, 3)
        self.version = StateVersion(-1)
        self.expected: dict[Any, str] = {}

    def commit(self, time_ms: int, changes: Changes) -> StateVersion:
        self.version = self.changed(self.version, time_ms, changes)
        for key, state in changes.items():
            self.expected.pop(key, None)
            if state is not None:
                self.expected[key] = state
        return self.version

    def changed(self, version: StateVersion, time_ms: int, changes: Changes) -> StateVersion:
        before = self.store.find(version, changes)
        rows = []
        for key, state in changes.items():
            if state is not None or key in before:
                stored = before[key].key if key in before else pickle_value(key)
                rows.append((key, StoredState(stored, None if state is None else pickle_value(state), time_ms)))
        return self.store.commit(version, time_ms, rows)

    def states(self, version: StateVersion) -> dict[Any, str]:
        pairs = list(self.store.snapshot(version))
        assert len(pairs) == len(dict(pairs)), "a key is there twice"
        return dict(pairs)

    @property
    def names(self) -> set[str]:
        """The files, without those that are being written."""
        local = Directory.of(str(self.store.directory))
        return set((self.store.remote or local).all_names())


SETTINGS = settings(
    deadline=None,
    derandomize=True,
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_the_keys_of_these_tests_are_equal_and_pickled_differently() -> None:
    assert SHARED == UNSHARED
    assert pickle.dumps(SHARED) != pickle.dumps(UNSHARED)
    assert len({pickle_value(key) for key in (1, 1.0, True)}) == 3


@given(st.lists(CHANGES, max_size=14))
@SETTINGS
def test_every_version_of_the_store_equals_a_dictionary(new_home: Callable[[], str], batches: list[Changes]) -> None:
    store = Store(new_home())
    versions = []
    for time_ms, changes in enumerate(batches):
        versions.append((store.commit(time_ms, changes), dict(store.expected)))
    for version, expected in versions:
        assert store.states(version) == expected
        asked = [1.0, 0, -2, "a", None, (1,), UNSHARED, "never"]
        found = store.store.find(version, asked)
        present = {key: pickle.loads(row.state) for key, row in found.items() if row.state is not None}
        assert present == {key: expected[key] for key in asked if key in expected}
        assert "never" not in found


@given(st.lists(CHANGES, min_size=1, max_size=10), st.data())
@SETTINGS
def test_old_version_can_be_committed_again(
    new_home: Callable[[], str], batches: list[Changes], data: st.DataObject
) -> None:
    store = Store(new_home())
    versions, states = [store.version], [dict[Any, str]()]
    for time_ms, changes in enumerate(batches):
        versions.append(store.commit(time_ms, changes))
        states.append(dict(store.expected))
    again = data.draw(st.integers(0, len(batches) - 1))
    names = store.names
    assert store.changed(versions[again], again, batches[again]) == versions[again + 1]
    assert store.names == names
    assert [store.states(version) for version in versions] == states


def test_file_that_replaces_one_is_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The driver has synced the first file, and a checkpoint that names it may be on the disk.
    store = Store(str(tmp_path / "home"))
    operations: list[str] = []
    replace = Path.replace

    def noted(path: Path, target: Path) -> Path:
        operations.append("replace")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", noted)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: operations.append("sync"))
    before = store.version
    store.commit(0, {"a": "x"})
    assert operations == ["replace"]
    store.changed(before, 0, {"a": "x"})
    assert operations == ["replace", "sync", "replace", "sync"]


@given(st.lists(CHANGES, min_size=1, max_size=14), st.integers(0, 6))
@SETTINGS
def test_retire_deletes_only_files_that_no_newer_version_needs(
    new_home: Callable[[], str], batches: list[Changes], kept: int
) -> None:
    store = Store(new_home())
    versions: list[tuple[StateVersion, dict[Any, str]]] = []
    for time_ms, changes in enumerate(batches):
        store.commit(time_ms, changes)
        store.version = store.store.retire(store.version, time_ms - kept)
        versions.append((store.version, dict(store.expected)))
        for version, expected in versions[-kept - 1 :]:
            assert store.states(version) == expected
    needed = {segment.name for version, _ in versions[-kept - 1 :] for segment in version.segments}
    retired = {name for _, name in store.version.retired}
    assert store.names - retired == needed - retired
    assert needed <= store.names


def test_number_of_files_and_rows_read_stays_logarithmic(new_home: Callable[[], str]) -> None:
    store, draw = Store(new_home()), random.Random(7)
    segments = []
    for time_ms in range(100):
        changes: Changes = {draw.randrange(2000): str(time_ms) for _ in range(20)}
        segments.append(len(store.commit(time_ms, changes).segments))
        store.version = store.store.retire(store.version, time_ms - 2)
        assert len(store.names) <= 3 * (max(segments) + 1)
    assert max(segments) <= 8
    assert store.states(store.version) == store.expected
    assert sum(segment.num_rows for segment in store.version.segments) <= 2 * len(store.expected)


def test_merge_of_all_segments_drops_removals(new_home: Callable[[], str]) -> None:
    store = Store(new_home())
    store.commit(1, {"a": "x", "b": "y"})
    store.commit(2, {"a": None, "b": None})
    assert store.states(store.version) == {}
    assert [segment.num_rows for segment in store.version.segments] == [0]


def test_a_batch_without_changes_writes_nothing(new_home: Callable[[], str]) -> None:
    store = Store(new_home())
    before = store.commit(1, {"a": "x"})
    names = store.names
    after = store.commit(2, {})
    assert (after.time_ms, after.segments) == (2, before.segments)
    assert store.names == names


def test_older_than_gives_keys_by_age(new_home: Callable[[], str]) -> None:
    from attrs import evolve

    store = Store(new_home())
    for time_ms in range(10, 60, 10):
        store.commit(time_ms, {f"at {time_ms}": "x", **({"at 10": None} if time_ms == 40 else {})})
    old = set(store.store.older_than(store.version, 40))
    assert {"at 20", "at 30"} <= old <= {"at 10", "at 20", "at 30"}
    later = evolve(store.version, timed_out_ms=30)
    assert set(store.store.older_than(later, 40)) == {"at 30"}


def test_missing_state_file_is_named_in_the_error(new_home: Callable[[], str], tmp_path: Path) -> None:
    home = new_home()
    store = Store(home)
    version = store.commit(1, {"a": "x"})
    for path in tmp_path.rglob("*.db"):
        path.unlink()
    for read in (
        lambda: store.store.find(version, ["a"]),
        lambda: list(store.store.snapshot(version)),
        lambda: list(store.store.older_than(version, 5)),
        lambda: store.changed(version, 2, {"b": "y"}),
    ):
        with pytest.raises(
            StateGoneError, match=rf"^state file {home}/3/1-\w+\.db cannot be read: .*\. Restore the file"
        ):
            read()
    assert list(tmp_path.rglob("*.db")) == []


def test_state_beyond_the_limit_of_the_store_is_named_in_the_error(
    new_home: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        # SQLite's own limit is 1,000,000,000 bytes.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    store = StateStore.of(new_home(), 0)
    changes = [(key, StoredState(pickle_value(key), data, 1)) for key, data in (("a", b"x"), ("big", b"x" * 20_000))]
    expected = r"the state of key 'big' has 20,000 bytes, and .* takes 10,000 at most: distribute it over several keys"
    with pytest.raises(StateTooLargeError, match=expected):
        store.commit(StateVersion(-1), 1, changes)
    version = store.commit(StateVersion(-1), 1, changes[:1])
    assert store.find(version, ["a", "big"]).keys() == {"a"}


def test_host_without_a_copy_fetches_the_file(tmp_path: Path, copies: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    store = Store(home.as_uri())
    version = store.commit(1, {"a": "x"})
    assert len(list((home / "3").iterdir())) == 1
    (copy,) = copies.rglob("*.db")
    copy.unlink()
    assert store.states(version) == {"a": "x"}
    assert copy.exists()


def test_copies_are_private_and_below_the_executors_directory(tmp_path: Path, copies: Path) -> None:
    before = os.umask(0)
    try:
        Store((tmp_path / "home").as_uri()).commit(1, {"a": "x"})
        Store(str(tmp_path / "state" / "0")).commit(1, {"a": "x"})
    finally:
        os.umask(before)
    found = [*copies.rglob("*"), *(tmp_path / "state").rglob("*")]
    assert len(found) == 5
    assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}
    assert copies.stat().st_mode & 0o777 == 0o700


def test_copies_are_not_read_from_a_directory_of_another_user(
    tmp_path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: copies.stat().st_uid + 1)
    with pytest.raises(PermissionError, match=r"penstock-state belongs to another user: set SPARK_LOCAL_DIRS"):
        Store((tmp_path / "home").as_uri())


def test_link_is_no_directory_for_copies(tmp_path: Path, copies: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    copies.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs to another user"):
        Store((tmp_path / "home").as_uri())


def test_copies_of_a_partition_that_has_moved_are_deleted(tmp_path: Path, copies: Path) -> None:
    homes = [tmp_path / name for name in ("moved", "ended", "here")]
    moved, _ended, here = (Store(home.as_uri()) for home in homes)
    for store in (moved, _ended, here):
        store.commit(1, {"a": "x"})
    assert len(list(copies.iterdir())) == 3
    for path in copies.iterdir():
        os.utime(path, (0, 0))
    here.version = here.store.retire(here.version, 1)
    assert list(copies.iterdir()) == [here.store.directory]
    # The partition may come back.
    assert moved.states(moved.version) == {"a": "x"}


def test_file_of_a_killed_attempt_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store((tmp_path / "home").as_uri())
    version = store.commit(1, {"a": "x"})
    (name,) = store.names
    published: list[bytes] = []
    kind = type(directory_of("file:///"))
    moves = kind.create

    @contextmanager
    def create(directory: Directory, name: str, *, sync: bool = False) -> Iterator[Any]:
        with moves(directory, name, sync=sync) as file:
            yield file
            # The second attempt has written nearly all, and readers of the first file see it whole.
            published.append((tmp_path / "home" / "3" / name).read_bytes())

    whole = (tmp_path / "home" / "3" / name).read_bytes()
    monkeypatch.setattr(kind, "create", create)
    again = Store((tmp_path / "home").as_uri())
    again.commit(1, {"a": "x"})
    assert published == [whole]
    assert again.states(version) == {"a": "x"}


def test_copy_of_one_run_is_not_mistaken_for_the_file_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    first = Store(home.as_uri())
    left = first.commit(1, {"a": "x", "b": "x", "c": "x", "d": "x", "e": "x"})
    first.commit(2, {"a": "y"})
    first.commit(3, {"b": "y"})
    # The run dies, and another recovers from batch 1 on another host: its batches have other records.
    (tmp_path / "other").mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "other"))
        second = Store(home.as_uri())
        second.version, second.expected = left, dict.fromkeys("abcde", "x")
        second.commit(2, {"a": "z"})
        second.commit(3, {"b": "z"})
    # And comes to the first host.
    assert first.states(second.version) == second.expected


def test_instances_of_unimportable_classes_are_pickled_by_value() -> None:
    class Own:
        number = 5

    assert pickle.loads(pickle_value(Own())).number == 5
    with pytest.raises(TypeError):
        pickle_value(sys.stdout.buffer)
