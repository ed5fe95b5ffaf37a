"""The roof: version, help, errors in one line, Ctrl-C."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import Result

import penstock as package
from penstock.cli.command import penstock
from penstock.errors import ConfigurationError

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


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout == f"penstock {package.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(cli: Cli, flag: str) -> None:
    said = cli(flag).stdout
    assert {"demo", "doctor", "plugins", "run"} <= set(said.split())


def test_the_module_is_the_command() -> None:
    said = subprocess.check_output([sys.executable, "-m", "penstock", "--version"], text=True)
    assert said == f"penstock {package.__version__}\n"


def test_an_error_is_one_line(cli: Cli, fail: Callable[[BaseException], None]) -> None:
    fail(ConfigurationError("the lid is closed\nand here is a traceback"))
    result = cli("fail")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "penstock: the lid is closed\n")


def test_an_error_in_penstock_itself_is_not_hidden(cli: Cli, fail: Callable[[BaseException], None]) -> None:
    fail(ZeroDivisionError())
    assert isinstance(cli("fail").exception, ZeroDivisionError)


def test_ctrl_c(cli: Cli, fail: Callable[[BaseException], None]) -> None:
    fail(KeyboardInterrupt())
    result = cli("fail")
    assert (result.exit_code, result.output) == (130, "")


def test_an_unknown_command_is_a_usage_error(cli: Cli) -> None:
    assert cli("dmeo").exit_code == 2


@pytest.mark.parametrize(("flags", "level"), [([], logging.WARNING), (["-v"], logging.INFO)])
def test_verbose(cli: Cli, flags: list[str], level: int) -> None:
    cli(*flags, "plugins", "list")
    assert logging.getLogger("penstock").getEffectiveLevel() == level
