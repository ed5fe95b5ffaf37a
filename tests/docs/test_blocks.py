"""Every code block of every page is run or read.

A block is checked by its language. ``sh``: every command is valid Bash, `penstock` commands have the options given
there, those of ``RUNS`` run under an empty home, pip installs distributions of this repository, make has the target.
``python`` runs: with the SparkContext of the tests where it needs one (see ``spark_blocks``), with the names of the
blocks before it on its page and of the page's prelude. ``properties``: Penstock knows each key and nothing ignores
it. ``yaml``, ``json``, ``toml``, ``ini`` and ``dockerfile`` are parsed. ``text``, ``mermaid`` and ``markdown`` are
shown only.

A page whose blocks belong together, as those of a tutorial, has a test of its own in ``OWN_TESTS``. A block that cannot
run says why after its language: ``python not_run="code that Penstock generates"``.
"""

from __future__ import annotations

import configparser
import itertools
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, blocks
from tests.docs.spark_blocks import NEEDS_SPARK, SparkBlocks, frugal_plans, line_server
from tests.helpers.forked import run_module

from penstock.cli.command import penstock
from penstock.conf import Settings
from penstock.conf_warnings import keys_without_effect
from penstock.plugins.discovery import Plugins
from penstock.runtime.log import components

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Page → the test that runs its blocks.
OWN_TESTS = {
    "docs/conformance.md": "tests/docs/test_conformance_page.py",
    "docs/dataframes.md": "tests/dataframes/test_checkpoints.py",
    "docs/structured-streaming.md": "tests/structured/test_queries.py",
    "docs/testing.md": "tests/docs/test_pages_with_tests.py",
    "docs/tutorial-rate-estimator.md": "tests/docs/test_tutorial_rate_estimator.py",
    "docs/tutorial-receiver.md": "tests/docs/test_tutorial_receiver.py",
    "docs/writing-a-listener.md": "tests/docs/test_pages_with_tests.py",
    "docs/writing-a-receiver.md": "tests/testing/test_receiver_harness.py",
    "plugins/rate/README.md": "tests/plugins/test_rate_readme.py",
}
#: Page → code for names that its fragments take for granted.
PRELUDES = {
    "docs/quickstart.md": "lines = ssc.receiverStream('file', path=\"words.txt\")",
    "docs/windows-and-state.md": "from penstock import StateSpec\n"
    "ssc.checkpoint('/checkpoints')\n"
    "lines = ssc.queueStream([['WARN a', 'INFO b']])\n"
    "clicks = ssc.queueStream([[('ann', '/'), ('bob', '/')]])",
    "plugins/socket/README.md": "import struct",
}
#: Pages about a plugin that is not installed.
OWN_PLUGINS = {page for page in OWN_TESTS if "tutorial" in page} | {
    "examples/estimator/README.md",
    "examples/plugin/README.md",
    "plugins/rate/README.md",
}
#: Commands of `penstock` that are quick and need nothing.
RUNS = ("plugins list", "plugins show", "rate simulate", "--help", "--version")
SHOWN = ("text", "mermaid", "markdown")


def runnable(*languages: str) -> list[Block]:
    return [block for block in all_blocks(*languages) if "not_run" not in block.options]


def in_blocks(*languages: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", runnable(*languages), ids=lambda block: block.place)


def test_every_block_is_accounted_for() -> None:
    checked = {"sh", "python", "properties", *READERS, *SHOWN}
    for page in PAGES:
        for block in blocks(page):
            assert block.language in checked, (
                f"{block.place}: no test reads {block.language or 'a block without language'}"
            )
            assert set(block.options) <= {"not_run", "title"}, block.place
            assert len(block.options.get("not_run", "a reason")) > 5, block.place


@pytest.mark.parametrize(("page", "test"), OWN_TESTS.items())
def test_a_page_with_its_own_test_is_named_there(page: str, test: str) -> None:
    assert list(blocks(page))
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


# -- data --


def read_ini(text: str) -> Any:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return parser.sections()


def read_dockerfile(text: str) -> Any:
    lines = text.replace("\\\n", "").splitlines()
    known = r"(FROM|RUN|COPY|ADD|USER|ENV|ARG|WORKDIR|ENTRYPOINT|CMD|EXPOSE) \S+"
    return [line for line in lines if re.match(known, line)] == lines


READERS: dict[str, Callable[[str], Any]] = {
    "dockerfile": read_dockerfile,
    "ini": read_ini,
    "json": lambda text: [json.loads(line) for line in text.splitlines()] if "}\n{" in text else json.loads(text),
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}


@in_blocks(*READERS)
def test_data_is_well_formed(block: Block) -> None:
    assert READERS[block.language](block.text)


@in_blocks("properties")
def test_every_key_of_a_configuration_has_an_effect(block: Block) -> None:
    lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = dict(re.split(r"\s*=\s*|\s+", line.strip(), maxsplit=1) for line in lines)
    assert pairs
    check_configuration(pairs, block.place)


def check_configuration(pairs: dict[str, str], place: str) -> None:
    options = Plugins().known_options() | {"spark.penstock.log.level.": components()}
    found = keys_without_effect(Settings.parse(pairs), options)
    # A fragment may choose an estimator and leave the rest to its page, which may also have a plugin of its own.
    assert [each for each in found if not re.match("rate control is off|no installed plugin", each.reason)] == [], place


# -- shell --


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a script, without what follows a pipe."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r" && | \|\| |; ", re.sub(r"(^|\s)#.*", "", line)):
            words = shlex.split(part.partition(" | ")[0].removesuffix(" &"))
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words = words[1:]
            if words:
                yield words


def check_penstock(words: list[str]) -> None:
    """The command and its options exist."""
    command: click.Command = penstock
    context = click.Context(penstock, info_name="penstock")
    while isinstance(command, click.Group):
        while words and words[0].startswith("-"):
            options = {option for each in command.get_params(context) for option in each.opts}
            assert words.pop(0) in options | {"-h", "--help"}
        if not words:
            return
        found = command.get_command(context, words[0])
        assert found is not None, f"penstock has no command {words[0]}"
        command, words = found, words[1:]
    if not {"--help", "-h"} & set(words):
        files = [each.type for each in command.params if isinstance(each.type, click.Path | click.File)]
        with pytest.MonkeyPatch.context() as patch:
            for each in files:
                patch.setattr(each, "convert", lambda value, _parameter, _context: Path(value))
            command.make_context(command.name, list(words), parent=context)


def check_pip(words: list[str]) -> None:
    """What is installed of this project exists."""
    projects = {
        each["name"]: each.get("optional-dependencies", {})
        for path in [ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
        if (each := tomllib.loads(path.read_text(encoding="utf-8")).get("project"))
    }
    for word in words:
        if word.startswith("./"):
            folder, _, several = word.partition("[")[0].partition("{")
            for each in several.removesuffix("}").split(","):
                assert (ROOT / folder / each / "pyproject.toml").exists(), word
        match = re.fullmatch(r"(penstock[\w-]*)(?:\[([\w,]+)\])?(?:[=<>].*)?", word)
        if match:
            assert match[1] in projects, word
            assert set(filter(None, (match[2] or "").split(","))) <= set(projects[match[1]]), word


def check_make(words: list[str]) -> None:
    """The target exists."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [word for word in words if "=" not in word and word not in targets] == []


def check_spark_submit(words: list[str]) -> None:
    """The keys have an effect."""
    pairs = [word.partition("=") for before, word in itertools.pairwise(words) if before == "--conf"]
    check_configuration({key: value for key, _, value in pairs}, "spark-submit")


CHECKS = {"penstock": check_penstock, "pip": check_pip, "make": check_make, "spark-submit": check_spark_submit}


@in_blocks("sh")
def test_shell_commands_are_valid(block: Block, tmp_path: Path) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, timeout=60)
    for name, *words in commands(block.text):
        program = Path(name).name
        if program in CHECKS:
            CHECKS[program](words)
        if program in ("penstock", "spark-submit"):
            check_spark_submit(words)
        line = " ".join(words)
        if program == "penstock" and block.page not in OWN_PLUGINS and line.startswith(RUNS):
            home = {"HOME": str(tmp_path), "COLUMNS": "120", "PATH": "/usr/bin:/bin"}
            ended = run_module("penstock", *words, cwd=tmp_path, env=home)
            assert ended.returncode == 0, ended.stdout


# -- Python --


def python_pages(*, with_spark: bool) -> list[str]:
    return [
        page
        for page in PAGES
        if page not in OWN_TESTS
        and (found := [block for block in runnable("python") if block.page == page])
        and any(NEEDS_SPARK.search(PRELUDES.get(page, "") + block.text) for block in found) == with_spark
    ]


@pytest.mark.parametrize("page", python_pages(with_spark=False))
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(PRELUDES.get(page, ""), names)
    for block in runnable("python"):
        if block.page == page:
            exec(compile("\n" * block.line + block.text, page, "exec"), names)
    for name, test in list(names.items()):
        if name.startswith("test_"):
            test()


@pytest.mark.spark
@pytest.mark.parametrize("page", python_pages(with_spark=True))
def test_python_runs_with_spark(page: str, sc: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [block for block in runnable("python") if block.page == page]
    run = SparkBlocks(sc, tmp_path, PRELUDES.get(page, ""), monkeypatch)
    plans = frugal_plans(sc) if any("toDF" in block.text for block in found) else nullcontext()
    with line_server() as port, plans:
        for block in found:
            run.run(block, port)
