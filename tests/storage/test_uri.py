"""Locations: paths and URIs are told apart and normalized; connections are made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from penstock.errors import ConfigurationError
from penstock.storage.uri import absolute_location, connect, is_remote, location_of_hadoop


@pytest.mark.parametrize(
    ("given", "location"),
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
def test_location_is_normalized(given: str, location: str) -> None:
    assert absolute_location(given) == location
    assert absolute_location(location) == location


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ("file:/some/check point", "/some/check point"),
        ("file:///some/a%20b", "/some/a%20b"),
        ("/some/a%20b", "/some/a%20b"),
        ("s3a://bucket/a b", "s3://bucket/a b"),
        ("hdfs://host:8020/some/check", "hdfs://host:8020/some/check"),
    ],
)
def test_location_of_hadoop_is_not_percent_decoded(given: str, location: str) -> None:
    assert location_of_hadoop(given) == location


def test_relative_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("check/point") == str(tmp_path / "check" / "point")


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_location_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="path of a directory is empty"):
        absolute_location(text)


def test_uri_is_remote_and_path_is_not() -> None:
    assert is_remote("s3://bucket/a")
    assert not is_remote("/a/b")
    assert not is_remote("/a/b:c")


@pytest.mark.parametrize("uri", ["nosuch://host/a", "s3://a bucket/a"])
def test_uri_without_file_system_is_refused_by_name(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no file system for '{uri}'"):
        connect(uri)


def test_connection_is_made_once_for_each_uri() -> None:
    assert connect("mock:///one")[0] is connect("mock:///one")[0]
    assert connect("mock:///one")[0] is not connect("mock:///two")[0]


def test_hdfs_without_a_host_is_hadoops_default_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(fs, "HadoopFileSystem", lambda host, port: asked.append((host, port)))
    assert connect("hdfs:///check%20points/counts") == (None, "/check points/counts")
    assert asked == [("default", 0)]
