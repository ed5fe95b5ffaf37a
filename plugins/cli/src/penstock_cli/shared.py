"""Shared by the subcommands: the console, JSON, examples in help texts, and the options ``--conf`` and ``--option``."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import click
from rich.console import Console

from penstock import PenstockError
from penstock.spi import GROUP

#: The entry-point group in which a distribution names subcommands of ``penstock``: click commands.
COMMANDS_GROUP = f"{GROUP}.commands"
#: The entry-point group in which a distribution names demonstrations of its receivers.
DEMOS_GROUP = f"{GROUP}.demos"
_UNFOLDED = 1000
#: The meaning of the subcommands' exit codes; ``penstock run`` exits with the program's own.
EXIT_CODES = {
    0: "done; for checks: nothing was found",
    1: "an error, or a check found a problem",
    2: "the command line is wrong: an unknown command or option, or an invalid value",
    3: "plugins check: a check of level should failed",
    4: "plugins check: a check of level must failed",
    130: "stopped by Ctrl-C before it was done",
}
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def examples(*commands: tuple[str, str]) -> str:
    """The end of a help text: commands to copy.

    Args:
        commands: the arguments of ``penstock``, and their effect.
    """
    lines = [f"  # {what}\n  penstock {arguments}" for arguments, what in commands]
    return "\n".join(["\b", "Examples:", *lines])


def unavailable(name: str, reason: str) -> click.Command:
    """A subcommand that only reports why it cannot run."""

    @click.command(name, help=reason, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        raise PenstockError(reason)

    return command


def from_testing(name: str) -> click.Command:
    """The subcommand of a module that needs the testing kit; without the kit, a placeholder names the package."""
    try:
        command: click.Command = getattr(import_module(f"penstock_cli.{name}"), name)
    except PenstockError as error:  # the kit is of another version
        return unavailable(name, str(error))
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "penstock_testing":
            raise
        return unavailable(name, f"{name} needs the testing kit: pip install penstock-testing")
    return command


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def is_live() -> bool:
    """Whether standard output is a terminal that can be redrawn."""
    return sys.stdout.isatty() and Console().is_interactive


def terminal() -> Console:
    """Standard output: as wide as the terminal; files and pipes get unfolded lines.

    Text is printed as it is, since what looks like markup is a plugin's data. Colours respect ``NO_COLOR``.
    """
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _UNFOLDED)


def conf_pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Callback of ``--conf``: key → value. The error shows no value, which may be a secret."""
    pairs = dict(value.partition("=")[::2] for value in values)
    if any("=" not in value or not value.startswith("spark.") for value in values):
        raise click.BadParameter("must be spark.KEY=VALUE")
    return pairs


def option_pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Callback of ``--option``: option → value. The error shows no value, which may be a secret."""
    if any("=" not in value for value in values):
        raise click.BadParameter("must be NAME=VALUE")
    return dict(value.partition("=")[::2] for value in values)
