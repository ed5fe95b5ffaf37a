"""The names of distributions: nobody is asked to install another project, and the core names no first-party plugin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# `penstock` on the package index is another project.
OTHERS = re.compile(
    r"""
    (?<![\w.\-]) penstock \[ [a-z]                             # penstock[extra]
    | \b penstock [-_] all \b
    | \bpip[ ]install\b [^\n|;&`]* [ '"] penstock (?![-_\w./*])  # pip install penstock
    | ["'] penstock [ ]* (?:[=<>~!]=|[<>])                     # "penstock==0.1.0"
    | ^ \s* (?:dependencies|dev) \s* = \s* \[ [^\]]* ["'] penstock ["']
    """,
    re.VERBOSE | re.MULTILINE,
)
FIRST_PARTY = re.compile(
    r"penstock[-_](?:socket|file|rate|synthetic|ui|allocation|structured|cli|testing|dataframes|kafka|tables)"
)


NOT_OURS = {"__pycache__", "build", "dist", "site", "artifacts", "spark-warehouse"}


def files(folder: Path = ROOT) -> Iterator[Path]:
    """The files of the repository, without what its commands made."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in NOT_OURS and not path.name.startswith("."):
                yield from files(path)
        elif path.suffix not in {".json", ".png", ".pyc", ".svg"}:
            yield path


def found(pattern: re.Pattern[str], paths: Iterable[Path]) -> list[str]:
    hits = []
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="ignore")
        hits += [
            f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
            for match in pattern.finditer(text)
        ]
    return hits


def test_nothing_asks_to_install_another_project() -> None:
    paths = [path for path in files() if path != Path(__file__)]
    assert len(paths) > 500
    assert found(OTHERS, paths) == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install penstock",
        "`pip install penstock`",
        "pip install --upgrade 'penstock'",
        "pip install pyspark penstock attrs",
        "pip install 'penstock[java]'",
        "uv pip install penstock-all",
        'dependencies = ["penstock"]',
        'world("penstock==0.1.0")',
        '"penstock>=0.1",',
    ],
)
def test_the_search_sees_another_project(text: str) -> None:
    assert OTHERS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install penstock-core",
        "pip install 'penstock-cli[java]'",
        "pip install penstock-NAME",
        "install it; `penstock plugins list` shows it",
        "pip install ./plugins/ui",
        'group="penstock"',
    ],
)
def test_the_search_sees_no_more(text: str) -> None:
    assert not OTHERS.search(text)


def test_the_core_names_no_first_party_plugin() -> None:
    paths = list(files(ROOT / "core" / "src"))
    assert len(paths) > 100
    assert found(FIRST_PARTY, paths) == []
