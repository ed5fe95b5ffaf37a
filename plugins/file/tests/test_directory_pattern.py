"""``DirectoryPattern`` lists paths, URIs and patterns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from penstock import ConfigurationError
from penstock_file.directory_pattern import DirectoryPattern
from penstock_file.errors import DirectoryMissingError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A few directories with a file each."""
    for path in ("a", "b", "a/deep", ".hidden", "x1/in", "x2/in", "x2/out"):
        (tmp_path / path).mkdir(parents=True)
    for path in (
        "top",
        "a/one",
        "a/.dot",
        "a/deep/two",
        "b/three",
        ".hidden/four",
        "x1/in/five",
        "x2/in/six",
        "x2/out/7",
    ):
        (tmp_path / path).write_text("x")
    return tmp_path


def found(place: DirectoryPattern, tree: Path) -> list[str]:
    return sorted(str(Path(info.path).relative_to(tree)) for info in place.listing())


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", ["a/.dot", "a/one"]),
        ("a/", ["a/.dot", "a/one"]),
        ("*", ["a/.dot", "a/one", "b/three"]),
        ("*/", ["a/.dot", "a/one", "b/three"]),
        (".*", [".hidden/four"]),
        ("[b-z]", ["b/three"]),
        ("[^a]", ["b/three"]),
        ("?", ["a/.dot", "a/one", "b/three"]),
        ("x*/in", ["x1/in/five", "x2/in/six"]),
        ("x*/*", ["x1/in/five", "x2/in/six", "x2/out/7"]),
        ("x{1,2}/in", ["x1/in/five", "x2/in/six"]),
        ("{a,b,none}", ["a/.dot", "a/one", "b/three"]),
        ("{b,x{1,2}/in}", ["b/three", "x1/in/five", "x2/in/six"]),
        ("{a,*}", ["a/.dot", "a/one", "b/three"]),
    ],
)
def test_pattern_matches_directories(tree: Path, pattern: str, expected: list[str]) -> None:
    assert found(DirectoryPattern(f"{tree}/{pattern}"), tree) == expected
    assert found(DirectoryPattern(f"file:{tree}/{pattern}"), tree) == expected
    assert found(DirectoryPattern(f"file://{tree}/{pattern}"), tree) == expected


def test_relative_path_is_made_absolute_at_creation(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    place = DirectoryPattern("b")
    monkeypatch.chdir("/")
    assert found(place, tree) == ["b/three"]


def test_uri_may_be_percent_encoded(tree: Path) -> None:
    (tree / "b c").mkdir()
    (tree / "b c" / "file").write_text("x")
    assert found(DirectoryPattern((tree / "b c").as_uri()), tree) == ["b c/file"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none", "none does not exist"),
        ("top", "top is no directory"),
        ("none*", "no directory matches .*none"),
        ("to?", "no dir"),
    ],
)
def test_missing_directory_is_reported(tree: Path, path: str, why: str) -> None:
    with pytest.raises(DirectoryMissingError, match=why):
        DirectoryPattern(f"{tree}/{path}").listing()


def test_directory_without_files_lists_none(tree: Path) -> None:
    assert found(DirectoryPattern(f"{tree}/x1"), tree) == []


def test_second_look_omits_deleted_files(tree: Path) -> None:
    paths = [str(tree / name) for name in ("top", "none", "a")]
    assert [info.path for info in DirectoryPattern(str(tree)).again(paths)] == [str(tree / "top")]


def test_dangling_link_is_not_listed(tree: Path) -> None:
    (tree / "b" / "link").symlink_to(tree / "nowhere")
    (tree / "b" / "good").symlink_to(tree / "top")
    assert found(DirectoryPattern(f"{tree}/b"), tree) == ["b/good", "b/three"]


@pytest.mark.parametrize("uri", ["nosuch://host/path", "mock:no path", "nosuch:x"])
def test_unknown_file_system_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="no file system for"):
        DirectoryPattern(uri)


# -- other file systems, by the ones that Arrow has in memory --


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What file systems were asked for; each is one in memory with a few files."""
    asked: list[str] = []

    def connect(uri: str) -> tuple[fs.FileSystem, str]:
        asked.append(uri)
        memory, _ = fs.FileSystem.from_uri("mock:///")
        for path in ("bucket/logs/a/one", "bucket/logs/b/two", "bucket/top"):
            memory.create_dir(path.rpartition("/")[0], recursive=True)
            with memory.open_output_stream(path) as file:
                file.write(b"x")
        return memory, uri.partition("://")[2].partition("?")[0]

    monkeypatch.setattr("penstock_file.directory_pattern.connect", connect)
    return asked


@pytest.mark.parametrize(
    ("directory", "uri", "names"),
    [
        ("s3://bucket", "s3://bucket", ["s3://bucket/top"]),
        ("s3a://bucket/logs/a/", "s3://bucket/logs/a", ["s3://bucket/logs/a/one"]),
        ("s3a://bucket/logs/*", "s3://bucket/logs", ["s3://bucket/logs/a/one", "s3://bucket/logs/b/two"]),
        ("gs://bucket/*/b?x=y", "gs://bucket?x=y", ["gs://bucket/logs/b/two"]),
        ("s3://bucket/logs/?", "s3://bucket/logs", ["s3://bucket/logs/a/one", "s3://bucket/logs/b/two"]),
    ],
)
def test_uri_is_split_into_file_system_and_pattern(
    asked: list[str], directory: str, uri: str, names: list[str]
) -> None:
    place = DirectoryPattern(directory)
    assert asked == [uri]
    assert sorted(place.name(info.path) for info in place.listing()) == names
