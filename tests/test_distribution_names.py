"""The names of distributions: nobody is asked to install another project, and the core names no first-party plugin."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from penstock.spi import Plugins

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
COMMAND = re.compile(
    r"\bpenstock (?:checkpoint|conf|demo|doctor|new|pack|plugins|rate|report|run|simulate|status|top|ui)\b"
)
#: Names of first-party plugins, and of what they offer, that strings of the core may have → why.
ALLOWED = {
    ("inputs.py", "socket"): "PySpark's method socketTextStream needs a receiver; the plugin is not named",
    ("inputs.py", "socket-stream"): "PySpark's method socketStream needs a receiver",
    ("inputs.py", "raw-socket"): "Spark's method rawSocketStream needs a receiver",
    ("inputs.py", "file"): "Spark's method fileStream needs an input stream; the plugin is not named",
    ("inputs.py", "text-file"): "PySpark's method textFileStream needs an input stream",
    ("inputs.py", "binary-records"): "PySpark's method binaryRecordsStream needs an input stream",
    ("conf_keys.py", "pid"): "Spark's default of spark.streaming.backpressure.rateEstimator",
    ("conf_keys.py", "rate"): "a heading of the table of keys",
    ("graph/dstream.py", "dataframes"): "the name of the hook that DStream.toDF calls",
    ("graph/dstream.py", "state"): "the name of the hook that the stateful operators of DStream call",
    ("plugins/discovery.py", "dataframes"): "the usual name of the plugin that answers two hooks",
    ("plugins/discovery.py", "state"): "the name of a hook that one plugin answers",
    ("journal/segment.py", "state"): "an attribute of the header of a log file",
    ("storage/uri.py", "file"): "the scheme of file URIs",
    ("_moved.py", "cli"): "says where a module of the old layout went",
    ("__main__.py", "cli"): "says where the command of the old layout went",
}


@cache
def first_party_names() -> frozenset[str]:
    """The folders of the plugins, their entry points, and what they offer."""
    names = set()
    for project in ROOT.glob("plugins/*/pyproject.toml"):
        entry_points = tomllib.loads(project.read_text())["project"].get("entry-points", {})
        names |= {project.parent.name, *entry_points.get("penstock", {})}
    plugins = Plugins()
    return frozenset(names.union(*(plugins.specs(hook) for hook in Plugins.KINDS)))


def names_in_strings(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of the first-party plugins, and the commands, that strings and comments of the source have."""
    names = "|".join(map(re.escape, sorted(first_party_names(), key=len, reverse=True)))
    distributions = re.compile(rf"\bpenstock[-_](?:{names})\b")
    keys = re.compile(rf"\bspark\.penstock\.(?:receiver\.|input\.)?({names})\.|\bbackpressure\.({names})\.")
    for pattern in (distributions, keys, COMMAND):
        for match in pattern.finditer(source):
            name = match[0] if pattern is not keys else match[1] or match[2]
            yield source.count("\n", 0, match.start()) + 1, name
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in first_party_names():
            yield node.lineno, node.value


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
    core = ROOT / "core" / "src" / "penstock"
    paths = [path for path in files(core) if path.suffix == ".py"]
    assert len(paths) > 100
    hits = [
        (str(path.relative_to(core)), line, name) for path in paths for line, name in names_in_strings(path.read_text())
    ]
    assert [hit for hit in hits if (hit[0], hit[2]) not in ALLOWED] == []
    assert {(path, name) for path, _line, name in hits} >= set(ALLOWED), "an exception is no longer needed"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('plugin = "rate" if hook == "rate_estimators" else name', "rate"),
        ('check(name, "socket")', "socket"),
        ('DEFAULT = "model"', "model"),
        ('"set spark.penstock.receiver.raw-socket.max_frame_bytes"', "raw-socket"),
        ('"set spark.streaming.backpressure.pid.minRate"', "pid"),
        ('"set spark.penstock.ui.port"', "ui"),
        ('f"send it with `penstock pack` ({reason})"', "penstock pack"),
        ('"penstock plugins list shows them"', "penstock plugins"),
        ('"pip install penstock-socket"', "penstock-socket"),
        ("from penstock_ui import monitor", "penstock_ui"),
    ],
)
def test_the_search_sees_names_of_plugins_and_commands(source: str, name: str) -> None:
    assert [found for _line, found in names_in_strings(source)] == [name]


def test_the_search_sees_no_other_words() -> None:
    source = 'import socket\n"a TCP socket"; "spark.penstock.receiver."; "penstock-core"; "penstock-spark"; "pid_file"'
    assert list(names_in_strings(source)) == []
