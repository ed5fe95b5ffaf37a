"""The ``penstock`` command: its subcommands under one roof.

Owns what they share: how an error is told, what Ctrl-C comes to, how much is logged. Never imports Spark: a subcommand
does when it runs. All on the main thread.
"""

from __future__ import annotations

from typing import IO, Any

import click

from penstock import __version__
from penstock.cli.demo import demo
from penstock.cli.doctor import doctor
from penstock.cli.plugins import plugins
from penstock.cli.rate import rate
from penstock.cli.run import run
from penstock.errors import PenstockError
from penstock.runtime.log import set_level

_EXIT_INTERRUPTED = 130


class Failure(click.ClickException):
    """An error of Penstock's, as the command line tells it: one line."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        click.echo(f"penstock: {self.message.partition(chr(10))[0]}", file=file, err=file is None)


class _Roof(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            raise Failure(str(error)) from error
        except KeyboardInterrupt:
            ctx.exit(_EXIT_INTERRUPTED)


@click.group(cls=_Roof, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, Spark's own lines included.")
@click.pass_context
def penstock(context: click.Context, verbose: bool) -> None:
    """Micro-batch streaming for Python on Spark, with pluggable receivers.

    New here? "penstock demo" shows a stream at work, "penstock doctor" whether this machine has what it takes.
    """
    context.obj = verbose
    if verbose:
        set_level("INFO")


for _subcommand in (demo, run, plugins, rate, doctor):
    penstock.add_command(_subcommand)


def main() -> None:
    """Run the command; ends the process."""
    penstock(prog_name="penstock")
