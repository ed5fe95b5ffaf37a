"""What subcommands share: the console, and the options ``--conf`` and ``--option``."""

from __future__ import annotations

import sys

import click
from rich.console import Console

_UNFOLDED = 1000


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
