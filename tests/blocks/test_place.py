"""Places: paths and URIs are told apart, and written in one way."""

from pathlib import Path

import pytest

from penstock.blocks import place
from penstock.errors import ConfigurationError


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("/", "/"),
        ("/a b/%41", "/a b/%41"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("FILE:/a", "/a"),
        ("file:///a%20b", "/a b"),
        ("s3a://bucket/a/", "s3://bucket/a"),
        ("S3A://bucket/a", "s3://bucket/a"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
    ],
)
def test_a_place_in_full(given: str, full: str) -> None:
    assert place.absolute(given) == full
    assert place.absolute(full) == full


def test_a_relative_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert place.absolute("check/point") == str(tmp_path / "check" / "point")


def test_what_is_remote() -> None:
    assert place.is_remote("s3://bucket/a")
    assert not place.is_remote("/a/b")


@pytest.mark.parametrize("uri", ["nosuch://host/a", "s3://a bucket/a"])
def test_a_uri_that_nothing_answers_to_is_named(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no file system for '{uri}'"):
        place.connect(uri)
