"""Lays built distributions out as a package index that is a folder: ``-m tests.packaging.simple_index FILES INDEX``.

An installer that is given the address of the folder gets the distributions as it would from a published index: it
chooses by name and version, and knows no path of a wheel.
"""

from __future__ import annotations

import hashlib
import html
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


def write_index(files: Iterable[Path], index: Path) -> None:
    """Copy wheels and sdists into an index: a folder for each distribution, with a page that links to them.

    Raises:
        FileExistsError: the index exists.
    """
    index.mkdir(parents=True)
    pages: dict[str, list[str]] = {}
    for file in sorted(files):
        name = normalized(file.name.partition("-")[0])
        folder = index / name
        folder.mkdir(exist_ok=True)
        shutil.copy(file, folder)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        pages.setdefault(name, []).append(f"{file.name}#sha256={digest}")
    for name, links in pages.items():
        _write_page(index / name, links)
    _write_page(index, [f"{name}/" for name in pages])


def normalized(name: str) -> str:
    """The name of a distribution as an index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _write_page(folder: Path, links: Iterable[str]) -> None:
    anchors = [f'<a href="{html.escape(link)}">{html.escape(link.partition("#")[0])}</a><br>' for link in links]
    (folder / "index.html").write_text("\n".join(["<!DOCTYPE html>", *anchors, ""]), encoding="utf-8")


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    write_index([*source.glob("*.whl"), *source.glob("*.tar.gz")], target)
