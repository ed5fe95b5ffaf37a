"""The layout of the index of `make dist-test`, from which an installer takes distributions by their names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from tests.packaging.simple_index import normalized, write_index

FILES = ("penstock_core-0.1.0-py3-none-any.whl", "penstock_core-0.1.0.tar.gz", "penstock_spark-0.1.0-py3-none-any.whl")


def links(page: Path) -> list[str]:
    return re.findall(r'<a href="([^"]+)">', page.read_text(encoding="utf-8"))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    files = [tmp_path / name for name in FILES]
    for file in files:
        file.write_bytes(file.name.encode())
    write_index(files, tmp_path / "index")
    return tmp_path / "index"


def test_index_lists_each_distribution_once(index: Path) -> None:
    assert links(index / "index.html") == ["penstock-core/", "penstock-spark/"]


def test_page_of_a_distribution_links_to_its_files_with_their_digests(index: Path) -> None:
    pages = {folder: links(index / folder / "index.html") for folder in ("penstock-core", "penstock-spark")}
    linked = [(folder, *link.split("#sha256=")) for folder, page in pages.items() for link in page]
    assert [name for _, name, _ in linked] == list(FILES)
    for folder, name, digest in linked:
        assert hashlib.sha256((index / folder / name).read_bytes()).hexdigest() == digest


def test_an_index_is_not_mixed_with_an_earlier_one(index: Path) -> None:
    with pytest.raises(FileExistsError):
        write_index([], index)


@pytest.mark.parametrize("name", ["penstock_core", "Penstock.Core", "penstock-_core"])
def test_names_are_compared_as_an_index_does(name: str) -> None:
    assert normalized(name) == "penstock-core"
