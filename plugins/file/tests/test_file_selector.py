"""``FileSelector`` returns each complete file version once, oldest first, within the limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock_file.errors import FileReadError
from penstock_file.file_selector import HALF_WRITTEN, FileSelector

S = 1_000_000_000
NOW = 1_000_000 * S


@frozen
class Info:
    """A file, as a listing shows it."""

    path: str
    size: int = 10
    mtime_ns: int = NOW - 60 * S


class Directory:
    """Files that change when the test says so."""

    def __init__(self, accept: Callable[[str], bool] | None = None) -> None:
        self.files: dict[str, Info] = {}
        self.now_ns = NOW
        self.looked_again: list[list[str]] = []
        # What happens between the two looks.
        self.meanwhile: Callable[[], None] = lambda: None
        self.stepped_ns = 0
        self.selection = FileSelector(
            lambda: self.now_ns + self.stepped_ns, accept, lambda path: f"x://{path}", lambda: self.now_ns
        )

    def put(self, path: str, size: int = 10, age_s: float = 60) -> None:
        self.files[path] = Info(path, size, self.now_ns - int(age_s * S))

    def again(self, paths: Sequence[str]) -> list[Any]:
        self.looked_again.append(list(paths))
        self.meanwhile()
        return [self.files[path] for path in paths if path in self.files]

    def look(self, max_files: int = 0, max_bytes: int = 0) -> list[str]:
        self.selection.look(list(self.files.values()), self.again)
        return [version.path for version in self.selection.take(max_files, max_bytes)]


@pytest.fixture
def directory() -> Directory:
    return Directory()


def test_file_is_read_once(directory: Directory) -> None:
    directory.put("a")
    assert directory.look() == ["a"]
    assert directory.look() == []
    directory.put("b")
    assert directory.look() == ["b"]
    assert directory.looked_again == []


def test_existing_files_can_be_skipped(directory: Directory) -> None:
    directory.put("old")
    directory.selection.note(list(directory.files.values()))
    directory.put("new")
    assert directory.look() == ["new"]


@pytest.mark.parametrize("age_s", [10 * 365 * 86400, -3600], ids=["ten years old", "of the future"])
def test_time_of_a_file_does_not_matter(directory: Directory, age_s: float) -> None:
    directory.put("a", age_s=age_s)
    assert directory.look() == ["a"]


def test_oldest_files_are_taken_first(directory: Directory) -> None:
    for path, age_s in (("new", 2), ("old", 100), ("b", 50), ("a", 50)):
        directory.put(path, age_s=age_s)
    assert directory.look() == ["old", "a", "b", "new"]


def test_cap_on_files_leaves_the_rest_for_later(directory: Directory) -> None:
    for number in range(5):
        directory.put(str(number))
    assert directory.look(max_files=2) == ["0", "1"]
    assert len(directory.selection.position()["queued"]) == 3
    directory.put("older", age_s=100)
    assert directory.look(max_files=2) == ["older", "2"]
    assert directory.look(max_files=9) == ["3", "4"]


def test_cap_on_bytes_leaves_the_rest_for_later(directory: Directory) -> None:
    for path, size in (("a", 10), ("b", 10), ("c", 100), ("d", 1)):
        directory.put(path, size)
    assert [directory.look(max_bytes=25) for _ in range(4)] == [["a", "b"], ["c"], ["d"], []]


@pytest.mark.parametrize("name", [".a", "dir.d/.a", *(f"a{ending}" for ending in HALF_WRITTEN)])
def test_hidden_and_half_written_names_are_skipped(directory: Directory, name: str) -> None:
    directory.put(name)
    assert directory.look() == []
    directory.files = {"a": directory.files[name]}
    directory.put("a")
    assert directory.look() == ["a"]


def test_half_written_name_is_logged_once(directory: Directory, caplog: pytest.LogCaptureFixture) -> None:
    directory.put("a._COPYING_")
    directory.put(".b")
    for _ in range(3):
        directory.look()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "x://a._COPYING_" in record.getMessage()
    assert "half-written" in record.getMessage()
    del directory.files["a._COPYING_"]
    directory.look()
    directory.put("a._COPYING_")
    directory.look()
    assert len(caplog.records) == 1  # back as it was


def test_recent_file_is_looked_at_twice(directory: Directory) -> None:
    directory.put("a", age_s=0.5)
    directory.put("b", age_s=2)
    directory.put("c", age_s=-2)
    assert directory.look() == ["b", "a", "c"]
    assert directory.looked_again == [["a", "c"]]


def test_growing_file_is_left_for_later(directory: Directory, caplog: pytest.LogCaptureFixture) -> None:
    directory.meanwhile = lambda: directory.put("a", directory.files["a"].size + 1, age_s=0)
    directory.put("a", age_s=0)
    assert directory.look() == []
    assert directory.look() == []
    (record,) = caplog.records
    assert "unfinished file left" in record.getMessage()
    assert "x://a" in record.getMessage()
    directory.meanwhile = lambda: None
    assert directory.look() == ["a"]
    assert len(caplog.records) == 1


def test_recent_file_that_vanishes_meanwhile_is_forgotten(directory: Directory) -> None:
    directory.meanwhile = lambda: directory.files.clear()
    directory.put("a", age_s=0)
    assert directory.look() == []
    assert len(directory.selection.position()["known"]) == 0


def test_empty_file_is_read_once_it_has_bytes(directory: Directory, caplog: pytest.LogCaptureFixture) -> None:
    directory.put("a", 0)
    assert directory.look() == []
    directory.put("a", 5)
    assert directory.look() == ["a"]
    assert not caplog.records


def test_file_that_changed_is_read_again_when_it_is_quiet(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.put("a", 10)
    directory.look()
    directory.put("a", 20, age_s=0.4)
    assert directory.look() == []
    assert not caplog.records
    directory.now_ns += S
    assert directory.look() == ["a"]
    (record,) = caplog.records
    for words in ("file changed", "x://a", "receiver 'file'"):
        assert words in record.getMessage()
    assert directory.look() == []


def test_file_that_changes_while_it_is_queued_is_read_once(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.put("a")
    directory.put("b", 10)
    assert directory.look(max_files=1) == ["a"]
    directory.put("b", 20)
    assert directory.look() == ["b"]
    assert directory.look() == []
    assert not caplog.records


def test_newest_version_of_a_queued_file_is_taken(directory: Directory) -> None:
    directory.put("b", 10, age_s=50)
    directory.selection.look(list(directory.files.values()), directory.again)
    directory.put("b", 20, age_s=70)
    directory.selection.look(list(directory.files.values()), directory.again)
    assert [(version.path, version.size) for version in directory.selection.take(0, 0)] == [("b", 20)]


def test_vanished_queued_file_is_logged(directory: Directory, caplog: pytest.LogCaptureFixture) -> None:
    directory.put("a")
    directory.put("b")
    directory.look(max_files=1)
    directory.files.clear()
    assert directory.look() == []
    (record,) = caplog.records
    assert "vanished before it was read" in record.getMessage()


def test_known_files_are_those_listed(directory: Directory) -> None:
    for number in range(100):
        directory.put(str(number))
    directory.look()
    assert len(directory.selection.position()["known"]) == 100
    for number in range(90):
        del directory.files[str(number)]
    directory.look()
    assert len(directory.selection.position()["known"]) == 10


def test_files_put_back_are_taken_again(directory: Directory) -> None:
    directory.put("a", 10)
    directory.put("b", 10)
    directory.selection.look(list(directory.files.values()), directory.again)
    taken = directory.selection.take(1, 0)
    directory.selection.put_back(taken)
    assert directory.look() == ["a", "b"]


def test_filter_decides_alone_and_once_a_version() -> None:
    asked: list[str] = []

    def accept(name: str) -> bool:
        asked.append(name)
        return not name.endswith("no")

    directory = Directory(accept)
    for path in (".a", "b.tmp", "no"):
        directory.put(path)
    assert directory.look() == [".a", "b.tmp"]
    directory.look()
    assert asked == ["x://.a", "x://b.tmp", "x://no"]


def test_filter_that_fails_loses_nothing() -> None:
    fails = True

    def accept(_name: str) -> bool:
        if fails:
            raise KeyError("why")
        return True

    directory = Directory(accept)
    directory.put("a")
    with pytest.raises(FileReadError, match="the filter of the file stream failed on x://a: KeyError"):
        directory.look()
    fails = False
    assert directory.look() == ["a"]


class EachVersionOnce(RuleBasedStateMachine):
    """Whatever happens to the files: what is there and quiet is read, each version once."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Directory()
        self.read: list[tuple[str, int, int]] = []

    @rule(path=st.sampled_from("abc"), size=st.integers(0, 3), age_s=st.sampled_from([0, 0.5, 2, 50, -5]))
    def put(self, path: str, size: int, age_s: float) -> None:
        self.directory.now_ns += 1
        self.directory.put(path, size, age_s)

    @rule(path=st.sampled_from("abc"))
    def remove(self, path: str) -> None:
        self.directory.files.pop(path, None)

    @rule(max_files=st.integers(0, 2), max_bytes=st.integers(0, 4))
    def batch(self, max_files: int, max_bytes: int) -> None:
        self.directory.selection.look(list(self.directory.files.values()), self.directory.again)
        taken = self.directory.selection.take(max_files, max_bytes)
        assert not max_files or len(taken) <= max_files
        assert not max_bytes or len(taken) <= 1 or sum(version.size for version in taken) <= max_bytes
        for version in taken:
            assert self.directory.files[version.path] == Info(version.path, version.size, version.mtime_ns)
            self.read.append((version.path, version.size, version.mtime_ns))

    @rule()
    def time_passes(self) -> None:
        self.directory.now_ns += 10 * S

    @invariant()
    def no_version_is_read_twice(self) -> None:
        # Unless it was away in between: each `put` here has a time of its own.
        assert len(self.read) == len(set(self.read))

    def teardown(self) -> None:
        self.directory.now_ns += 100 * S
        self.batch(0, 0)
        there = {(info.path, info.size, info.mtime_ns) for info in self.directory.files.values() if info.size}
        assert there <= set(self.read)
        assert len(self.directory.selection.position()["queued"]) == 0


TestEachVersionOnce = EachVersionOnce.TestCase


def test_file_that_a_listing_misses_is_not_read_again(directory: Directory) -> None:
    directory.put("a")
    assert directory.look() == ["a"]
    missed = directory.files.pop("a")
    assert directory.look() == []
    directory.files["a"] = missed
    assert directory.look() == []
    del directory.files["a"]
    assert directory.look() == []
    directory.now_ns += 3600 * S
    assert directory.look() == []
    # An hour later it is taken for another file.
    directory.files["a"] = missed
    assert directory.look() == ["a"]


@pytest.mark.parametrize("stepped_s", [-3600, 3600])
def test_step_of_the_clock_does_not_end_the_time_for_a_missed_file(directory: Directory, stepped_s: int) -> None:
    directory.put("a", age_s=7200)
    assert directory.look() == ["a"]
    missed = directory.files.pop("a")
    assert directory.look() == []
    directory.stepped_ns = stepped_s * S
    directory.files["a"] = missed
    assert directory.look() == []


def test_files_modified_after_a_time_are_left_for_later(directory: Directory) -> None:
    for name, age_s in (("late", 50), ("old", 70)):
        directory.put(name, age_s=age_s)
    directory.selection.look(list(directory.files.values()), directory.again)
    taken = [directory.selection.take(0, 0, NOW - seconds * S) for seconds in (71, 70, 51, 50)]
    assert [[version.path for version in versions] for versions in taken] == [[], ["old"], [], ["late"]]


def test_readme_lists_the_names_that_are_skipped() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"`{' '.join(HALF_WRITTEN)}`" in readme
