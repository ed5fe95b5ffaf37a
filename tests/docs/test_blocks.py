"""Every code block of every page is run or read.

A block is checked by its language. ``sh``: every command is valid Bash, `penstock` commands have the options given
there, pip installs distributions of this repository, make has the target. The commands of ``RUNS`` run under an empty
home, blocks of ``SCRIPTS`` run as a whole; ``NOT_RUN`` has all others, with the reason.
``python`` runs: with the SparkContext of the tests where it needs one (see ``spark_blocks``), with the names of the
blocks before it on its page and of the page's prelude. ``properties``: Penstock knows each key and nothing ignores
it; the same for the configuration after ``--conf``. ``yaml``, ``json``, ``toml``, ``ini`` and
``dockerfile`` are parsed. ``text``, ``mermaid`` and ``markdown`` are shown only.

A page whose blocks belong together, as those of a tutorial, has a test of its own in ``OWN_TESTS``. A block that cannot
run says why after its language: ``python not_run="code that Penstock generates"``.
"""

from __future__ import annotations

import configparser
import itertools
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from benchmarks.__main__ import main as benchmark
from benchmarks.engines import ENGINES
from benchmarks.rows import make_rows
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, blocks
from tests.docs.spark_blocks import NEEDS_SPARK, SparkBlocks, line_server
from tests.examples.test_plugin import install
from tests.helpers.effective_keys import check_configuration
from tests.helpers.forked import run_module

from penstock_cli.command import penstock

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Page → the test that runs its blocks.
OWN_TESTS = {
    "docs/conformance.md": "tests/docs/test_conformance_page.py",
    "docs/dataframes.md": "plugins/dataframes/tests/on_spark/test_checkpoints.py",
    "docs/structured-streaming.md": "tests/structured/test_queries.py",
    "docs/testing.md": "tests/docs/test_pages_with_tests.py",
    "docs/tutorial-rate-estimator.md": "tests/docs/test_tutorial_rate_estimator.py",
    "docs/tutorial-receiver.md": "tests/docs/test_tutorial_receiver.py",
    "docs/writing-a-listener.md": "tests/docs/test_pages_with_tests.py",
    "docs/writing-a-receiver.md": "plugins/testing/tests/test_receiver_harness.py",
    "plugins/rate/README.md": "tests/plugins/test_rate_readme.py",
}
#: Page → code for names that its fragments take for granted.
PRELUDES = {
    "docs/quickstart.md": "lines = ssc.receiverStream('file', path=\"words.txt\")",
    "docs/operators.md": "from penstock import StateSpec\n"
    "ssc.checkpoint('/checkpoints')\n"
    "lines = ssc.queueStream([['WARN a', 'INFO b']])\n"
    "clicks = ssc.queueStream([[('ann', '/'), ('bob', '/')]])",
    "plugins/socket/README.md": "import struct",
}
#: Page → the folder of the plugin that it is about, which is installed for its commands.
EXAMPLE_PLUGINS = {f"examples/{name}/README.md": ROOT / "examples" / name for name in ("estimator", "plugin")}
#: Commands that are quick and need nothing.
RUNS = ("penstock plugins list", "penstock plugins show", "penstock rate simulate", "penstock --")
#: Pages whose own test does what their shell blocks say.
FOLLOWED = {page for page in OWN_TESTS if "tutorial" in page}
#: Pages about a plugin that is not installed.
UNINSTALLED = {*FOLLOWED, "plugins/rate/README.md"}
#: First words of a block that runs as a whole → a command that succeeds after it.
SCRIPTS = {"openssl req": "openssl verify -CAfile authority.pem -verify_hostname host-a certificate.pem"}
#: First words of commands → why this test does not run them.
NOT_RUN = {
    "python3 -m venv": "takes minutes and a network: `make dist-test` and `make matrix` do it",
    ".": "of the environment that is not created",
    "pip install": "takes minutes and a network: `make dist-test` and `make matrix` do it",
    "nats-server": "serves until it is stopped: plugins/nats/tests start it",
    "penstock demo": "starts Spark: plugins/cli/tests/test_demo.py runs it",
    "penstock doctor": "looks at this machine: plugins/cli/tests/test_doctor.py runs it on made-up ones",
    "penstock pack": "copies 100 MB: plugins/cli/tests/test_pack.py packs small packages",
    "penstock plugins check": "needs a source: plugins/cli/tests/test_check.py",
    "penstock plugins new": "tutorials do the same, and plugins/cli/tests/test_new.py tests what it writes",
    "make demo": "starts Spark: plugins/cli/tests/test_demo.py runs the command",
    "make test": "runs this test",
    "make bench": "takes minutes to hours: tests/benchmarks/test_quick_row.py runs a small row",
    "cd": "of the folder that is not created",
    "pytest": "of the plugin that is not created",
    "penstock run": "runs the reader's program: plugins/cli/tests/test_run.py, tests/faults/clusters/test_cluster.py",
    "penstock top": "needs a program that runs: plugins/ui/tests/test_terminal.py",
    "penstock report": "needs an event log: plugins/ui/tests/test_report.py",
    "penstock ui": "needs an event log: plugins/ui/tests/test_terminal.py",
    "$home/bin/spark-class": "needs several hosts: tests/helpers/standalone.py starts a cluster in the same way",
    "export": "for the command after it",
    "exec /usr/bin/python3.11": "needs Hadoop",
    "kubectl": "needs a cluster: tests/deploy/test_manifests.py validates the files",
    "spark-submit": "needs a cluster: tests/faults/clusters/test_cluster.py",
    "while": "runs until Ctrl-C",
}
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
            options = {option for parameter in command.get_params(context) for option in parameter.opts}
            assert words.pop(0) in options | {"-h", "--help"}
        if not words:
            return
        found = command.get_command(context, words[0])
        assert found is not None, f"penstock has no command {words[0]}"
        command, words = found, words[1:]
    if not {"--help", "-h"} & set(words):
        files = [param.type for param in command.params if isinstance(param.type, click.Path | click.File)]
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
            path, _, extras = word.removesuffix("]").partition("[")
            folder, _, several = path.partition("{")
            for each in several.removesuffix("}").split(","):
                file = ROOT / folder / each / "pyproject.toml"
                assert file.exists(), word
                project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
                assert set(filter(None, extras.split(","))) <= set(project.get("optional-dependencies", {})), word
        match = re.fullmatch(r"(penstock[\w-]*)(?:\[([\w,]+)\])?(?:[=<>].*)?", word)
        if match:
            assert match[1] in projects, word
            assert set(filter(None, (match[2] or "").split(","))) <= set(projects[match[1]]), word


def check_make(words: list[str]) -> None:
    """The target exists; the benchmarks have the rows, engines and options."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [word for word in words if "=" not in word and word not in targets] == []
    if "bench" in words:
        arguments = shlex.split(" ".join(word.removeprefix("ARGS=") for word in words if word != "bench"))
        with suppress(click.exceptions.Exit):  # of --list
            options = benchmark.make_context("bench", arguments).params
            assert set(options["names"]) <= {*make_rows(2), "headlines"}
            assert set(options["chosen"]) <= set(ENGINES)


def check_spark_submit(words: list[str]) -> None:
    """The keys have an effect."""
    pairs = [word.partition("=") for before, word in itertools.pairwise(words) if before == "--conf"]
    check_configuration({key: value for key, _, value in pairs}, "spark-submit")


CHECKS = {"penstock": check_penstock, "pip": check_pip, "make": check_make, "spark-submit": check_spark_submit}


@in_blocks("sh")
def test_every_shell_command_runs_or_says_why_not(block: Block) -> None:
    if block.page in FOLLOWED or block.text.startswith((*SCRIPTS, "while")):
        return
    for words in commands(block.text):
        assert " ".join(words).startswith((*RUNS, *NOT_RUN)), words


def test_tests_that_run_commands_elsewhere_exist() -> None:
    for path in re.findall(r"[\w/]+\.py", " ".join(NOT_RUN.values())):
        assert (ROOT / path).exists(), path


@in_blocks("sh")
def test_shell_commands_are_valid(block: Block, tmp_path: Path) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, timeout=60)
    environment = {"HOME": str(tmp_path), "COLUMNS": "120", "PATH": "/usr/bin:/bin"}
    for first, then in SCRIPTS.items():
        if block.text.startswith(first):
            script = f"set -e; {block.text}\n{then}"
            subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
    if block.page in EXAMPLE_PLUGINS:
        environment["PYTHONPATH"] = os.pathsep.join(install(EXAMPLE_PLUGINS[block.page], tmp_path))
    for name, *words in commands(block.text):
        program = Path(name).name
        if program in CHECKS:
            CHECKS[program](words)
        if program in ("penstock", "spark-submit"):
            check_spark_submit(words)
        if block.page not in UNINSTALLED and " ".join([program, *words]).startswith(RUNS):
            ended = run_module("penstock_cli", *words, cwd=tmp_path, env=environment)
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
@pytest.mark.usefixtures("frugal_plans")
@pytest.mark.parametrize("page", python_pages(with_spark=True))
def test_python_runs_with_spark(page: str, sc: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [block for block in runnable("python") if block.page == page]
    run = SparkBlocks(sc, tmp_path, PRELUDES.get(page, ""), monkeypatch)
    with line_server() as port:
        for block in found:
            run.run(block, port)
