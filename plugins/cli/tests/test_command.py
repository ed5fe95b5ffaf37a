"""The command as a whole: version, help, errors, Ctrl-C."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

import penstock as package
from penstock import ConfigurationError
from penstock_cli.command import penstock
from penstock_cli.shared import EXIT_CODES

Cli = Callable[..., Result]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Adds the subcommand `fail`, which raises."""

    def add(error: BaseException) -> None:
        @click.command()
        def fail() -> None:
            raise error

        monkeypatch.setitem(penstock.commands, "fail", fail)

    return add


def test_version_is_printed(cli: Cli) -> None:
    assert cli("--version").stdout == f"penstock {package.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(cli: Cli, flag: str) -> None:
    output = cli(flag).stdout
    assert {"demo", "doctor", "plugins", "run"} <= set(output.split())


def test_module_runs_the_command() -> None:
    output = subprocess.check_output([sys.executable, "-m", "penstock_cli", "--version"], text=True)
    assert output == f"penstock {package.__version__}\n"


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_error_is_printed_with_its_traceback_when_verbose(
    cli: Cli, fail: Callable[[BaseException], None], flag: str
) -> None:
    fail(ConfigurationError("the lid is closed\nand here is a traceback"))
    result = cli(flag, "fail")
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert ", in fail\n    raise error\n" in result.stderr
    assert result.stderr.endswith(
        "penstock.errors.ConfigurationError: the lid is closed\nand here is a traceback\npenstock: the lid is closed\n"
    )


def test_verbose_after_the_command_is_refused_with_its_place(cli: Cli) -> None:
    result = cli("plugins", "list", "-v")
    assert result.exit_code == 2
    assert "-v comes before the command: penstock -v plugins ..." in result.stderr
    assert "comes before" not in cli("doctor", "--vers").stderr


def test_error_is_one_line(cli: Cli, fail: Callable[[BaseException], None]) -> None:
    fail(ConfigurationError("the lid is closed\nand here is a traceback"))
    result = cli("fail")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "penstock: the lid is closed\n")


def children(command: click.Command) -> dict[str, click.Command]:
    """The subcommands of a group, those of plugins included."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    commands = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: subcommand for name, subcommand in commands.items() if subcommand is not None}


def all_commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command, the groups included."""
    yield path
    for name, child in children(command).items():
        yield from all_commands(child, (*path, name))


@pytest.mark.parametrize("path", list(all_commands(penstock)), ids=" ".join)
def test_help_explains_and_has_examples_that_name_existing_commands_and_options(
    cli: Cli, path: tuple[str, ...]
) -> None:
    text = cli(*path, "--help").stdout
    assert "Examples:" in text
    examples = re.findall(r"^    ?penstock (.*)$", text.partition("Examples:")[2], re.MULTILINE)
    assert examples
    for example in examples:
        words = [word for word in shlex.split(example.partition(" | ")[0]) if word != "-v"]
        command: click.Command = penstock
        while isinstance(command, click.Group):
            command = children(command)[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        if command.name == "run":
            words = words[: words.index("app.py")]
        assert {word for word in words if word.startswith("-")} <= options


def test_list_of_commands_cuts_no_description_off() -> None:
    for path in all_commands(penstock):
        command: click.Command = penstock
        for name in path:
            command = children(command)[name]
        assert command is penstock or not command.get_short_help_str(60).endswith("..."), path


def test_exit_codes_and_completion_are_in_the_help(cli: Cli) -> None:
    text = cli("--help").stdout
    for code, meaning in EXIT_CODES.items():
        assert f"{code:>3}  {meaning}" in text
    for shell in ("bash", "zsh", "fish"):
        assert f"_PENSTOCK_COMPLETE={shell}_source penstock" in text


def test_unexpected_error_is_not_hidden(cli: Cli, fail: Callable[[BaseException], None]) -> None:
    fail(ZeroDivisionError())
    assert isinstance(cli("fail").exception, ZeroDivisionError)


def test_ctrl_c_exits_with_130(cli: Cli, fail: Callable[[BaseException], None]) -> None:
    fail(KeyboardInterrupt())
    result = cli("fail")
    assert (result.exit_code, result.output) == (130, "")


def test_unknown_command_is_a_usage_error(cli: Cli) -> None:
    assert cli("dmeo").exit_code == 2


@pytest.mark.parametrize(("flags", "level"), [([], logging.WARNING), (["-v"], logging.INFO)])
def test_verbose_logs_at_info(cli: Cli, flags: list[str], level: int) -> None:
    cli(*flags, "plugins", "list")
    assert logging.getLogger("penstock").getEffectiveLevel() == level


class Offered(importlib.metadata.EntryPoint):
    """An entry point of a distribution that is not installed."""

    def load(self) -> object:
        return {"sound": click.Command("sound", callback=lambda: click.echo("sounds")), "odd": 5}[self.name]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points = importlib.metadata.EntryPoints(
        Offered(name, "x:y", "penstock.commands") for name in ("sound", "odd", "bad")
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **choice: entry_points.select(**choice))


@pytest.mark.usefixtures("offer")
def test_distribution_adds_a_subcommand(cli: Cli) -> None:
    assert cli("sound").stdout == "sounds\n"
    assert "sound" in cli("--help").stdout.split()


@pytest.mark.usefixtures("offer")
@pytest.mark.parametrize(("name", "reason"), [("bad", "does not load: KeyError"), ("odd", "is no click command")])
def test_subcommand_that_does_not_load_leaves_the_others(cli: Cli, name: str, reason: str) -> None:
    assert reason in cli(name).stderr
    assert cli("sound").stdout == "sounds\n"
    assert cli("--help").exit_code == 0


COMMANDS_IN_ONE_PROCESS = """
import contextlib, io, json, sys

first, *commands = json.loads(sys.argv[1])
exec(first)
from penstock_cli import main

results = []
for command in commands:
    sys.argv[1:] = command
    out, errors, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as exit:
            code = exit.code or 0
    results.append((code, out.getvalue(), errors.getvalue()))
print(json.dumps(results))
"""


def run_commands(folder: Path, commands: list[list[str]], first: str = "") -> list[tuple[int, str, str]]:
    """Exit code, output and errors of commands that one process runs in a folder, whose distributions it finds."""
    ended = subprocess.run(
        [sys.executable, "-c", COMMANDS_IN_ONE_PROCESS, json.dumps([first, *commands])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return [(code, out, errors) for code, out, errors in json.loads(ended.stdout)]


def test_command_without_the_testing_kit_says_what_to_install(tmp_path: Path) -> None:
    advice = "penstock: {} needs the testing kit: pip install penstock-testing\n".format
    messages = {
        "rate simulate --all": advice("rate"),
        "simulate": advice("simulate"),
        "plugins check socket": advice("check"),
        "plugins list": "",
        "plugins new receiver weather": "",
        "rate --help": "",
        "doctor": "",
    }
    results = run_commands(
        tmp_path, [command.split() for command in messages], "sys.modules['penstock_testing'] = None"
    )
    for (command, message), (code, _out, errors) in zip(messages.items(), results, strict=True):
        assert (errors, code) == (message, int(bool(message))), command


@pytest.mark.usefixtures("offer")
@pytest.mark.parametrize("arguments", [["top", "http://127.0.0.1:4050"], ["status", "URL", "--json"], ["ui", "LOG"]])
def test_subcommand_of_a_missing_distribution_names_it(cli: Cli, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 1
    assert result.stderr == f"penstock: penstock {arguments[0]} comes with penstock-ui: pip install penstock-ui\n"


OTHER_VERSION = "{0} 0.2.0 needs penstock-core 0.2.0, and {1} is installed: install both in one version, "


@pytest.mark.parametrize("distribution", ["penstock-cli", "penstock-testing"])
def test_command_of_another_version_than_the_core_is_refused(tmp_path: Path, distribution: str) -> None:
    install_other_version(tmp_path, distribution)
    commands = [["plugins", "list"], ["rate", "--help"], ["doctor", "--json"]]
    *refused, (_code, report, errors) = run_commands(tmp_path, commands)
    for code, _out, message in refused:
        assert message.startswith(f"penstock: {OTHER_VERSION.format(distribution, package.__version__)}")
        assert (message.count("\n"), code) == (1, 1)
    assert (errors, distribution in report) == ("", True)


@pytest.mark.parametrize("statement", ["import penstock_testing", "from penstock_testing import run_checks"])
def test_import_of_a_kit_of_another_version_than_the_core_is_refused(tmp_path: Path, statement: str) -> None:
    install_other_version(tmp_path, "penstock-testing")
    ended = subprocess.run(
        [sys.executable, "-c", statement],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    message = OTHER_VERSION.format("penstock-testing", package.__version__)
    assert ended.stderr.splitlines()[-1].startswith(f"penstock.errors.PluginError: {message}")


def install_other_version(folder: Path, distribution: str) -> None:
    """Put the metadata of version 0.2.0 of a distribution into a folder."""
    information = folder / f"{distribution.replace('-', '_')}-0.2.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.2.0\nRequires-Dist: penstock-core==0.2.0\n"
    )


def test_subcommand_of_a_distribution_of_another_version_is_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_other_version(tmp_path, "penstock-ui")
    (tmp_path / "penstock_ui-0.2.0.dist-info" / "entry_points.txt").write_text(
        "[penstock.commands]\ntop = nothing:top\n"
    )
    distributions = importlib.metadata.distributions(path=[str(tmp_path)])
    entry_points = importlib.metadata.EntryPoints(entry for one in distributions for entry in one.entry_points)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **chosen: entry_points.select(**chosen))
    assert OTHER_VERSION.format("penstock-ui", package.__version__) in cli("top", "http://127.0.0.1:4050").stderr
