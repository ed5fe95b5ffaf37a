"""The ``penstock`` command: its subcommands, and how errors, Ctrl-C and ``--verbose`` work for all of them.

Imports no Spark, so that ``--help`` is quick: a subcommand imports it when it runs. All on the main thread.
"""

from __future__ import annotations

from typing import IO, Any

import click

from penstock import __version__
from penstock.cli.demo import demo
from penstock.cli.doctor import doctor
from penstock.cli.pack import pack
from penstock.cli.plugins import plugins
from penstock.cli.rate import rate
from penstock.cli.run import run
from penstock.errors import PenstockError
from penstock.runtime.log import set_level

_EXIT_INTERRUPTED = 130


class Failure(click.ClickException):
    """A PenstockError on the command line: its first line, or all of it with ``--verbose``."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error."""
        click.echo(f"penstock: {self.message}", file=file, err=file is None)


class _PenstockGroup(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            message = str(error) if ctx.obj else str(error).partition("\n")[0]
            raise Failure(message) from error
        except KeyboardInterrupt:
            ctx.exit(_EXIT_INTERRUPTED)


@click.group(cls=_PenstockGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Log at INFO, show Spark's output, and print errors in full.")
@click.pass_context
def penstock(context: click.Context, verbose: bool) -> None:
    """Micro-batch streaming for Python on Spark, with pluggable receivers.

    Start with "penstock demo", which runs a stream here, and "penstock doctor", which checks this machine.
    """
    context.obj = verbose
    if verbose:
        set_level("INFO")


for _subcommand in (demo, run, pack, plugins, rate, doctor):
    penstock.add_command(_subcommand)


def main() -> None:
    """Run the command and exit the process."""
    penstock(prog_name="penstock")
