"""The ``penstock`` command: its subcommands, and how errors, Ctrl-C and ``--verbose`` work for all of them.

Imports no Spark, so that ``--help`` is quick: a subcommand imports it when it runs. All on the main thread.
Distributions add subcommands, which are click's, through the entry-point group ``penstock.commands``.
"""

from __future__ import annotations

import importlib.metadata
import traceback
from typing import IO, Any

import click

from penstock import PenstockError, __version__
from penstock.spi import check_core_version, set_level, summary_of
from penstock_cli.checkpoint import checkpoint
from penstock_cli.conf import conf
from penstock_cli.demo import demo
from penstock_cli.doctor import doctor
from penstock_cli.pack import pack
from penstock_cli.plugins import plugins
from penstock_cli.run import run
from penstock_cli.shared import COMMANDS_GROUP, EXIT_CODES, examples, from_testing, unavailable

_EXIT_INTERRUPTED = 130
# First-party subcommands of other distributions.
_ELSEWHERE = {"status": "penstock-ui", "top": "penstock-ui", "ui": "penstock-ui"}


class Failure(click.ClickException):
    """A PenstockError on the command line: its first line, with ``--verbose`` after the traceback."""

    def __init__(self, error: PenstockError, *, verbose: bool) -> None:
        super().__init__(str(error).partition("\n")[0])
        self._traceback = "".join(traceback.format_exception(error)) if verbose else ""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error."""
        click.echo(f"{self._traceback}penstock: {self.message}", file=file, err=file is None)


class _PenstockGroup(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *_ELSEWHERE, *importlib.metadata.entry_points(group=COMMANDS_GROUP).names})

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name in self.commands:
            return self.commands[name]
        for entry_point in importlib.metadata.entry_points(group=COMMANDS_GROUP, name=name):
            try:
                check_core_version(entry_point.dist)
                command = entry_point.load()
            # Whatever it raises: the other subcommands must work.
            except Exception as error:
                origin = entry_point.dist.name if entry_point.dist is not None else entry_point.value
                return unavailable(name, f"penstock {name} of {origin} does not load: {summary_of(error)}")
            if isinstance(command, click.Command):
                return command
            return unavailable(name, f"{entry_point.value} is no click command")
        if name in _ELSEWHERE:
            distribution = _ELSEWHERE[name]
            return unavailable(name, f"penstock {name} comes with {distribution}: pip install {distribution}")
        return None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            raise Failure(error, verbose=bool(ctx.obj)) from error
        except click.NoSuchOption as error:
            if error.option_name not in {"-v", "--verbose"}:
                raise
            message = f"{error.option_name} comes before the command: penstock -v {ctx.invoked_subcommand} ..."
            raise click.UsageError(message, error.ctx) from None
        except KeyboardInterrupt:
            ctx.exit(_EXIT_INTERRUPTED)


_EPILOG = "\n\n".join(
    [
        examples(
            ("doctor", "can this machine run Penstock? If not, what fixes it?"),
            ("demo", "watch a stream at work"),
            ("run --receivers 1 app.py", "run your own program"),
            ("plugins list", "which receivers are installed"),
            ("-v run app.py", "the same with log lines and full tracebacks"),
        ),
        "\n".join(
            [
                "\b",
                "Exit codes (of run: those of the program):",
                *(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()),
            ]
        ),
        "\n".join(
            [
                "\b",
                "Shell completion, with the names of plugins and configuration keys. Type the line",
                "of your shell once its environment is activated:",
                '  eval "$(_PENSTOCK_COMPLETE=bash_source penstock)"      # bash',
                '  eval "$(_PENSTOCK_COMPLETE=zsh_source penstock)"       # zsh, after compinit',
                "  _PENSTOCK_COMPLETE=fish_source penstock | source       # fish",
            ]
        ),
    ]
)


@click.group(cls=_PenstockGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(__version__, prog_name="penstock", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Log at INFO, show Spark's output, and errors with tracebacks.")
@click.pass_context
def penstock(context: click.Context, verbose: bool) -> None:
    """Micro-batch streaming for Python on Spark, with pluggable receivers.

    New here? Start with "penstock doctor", which checks this machine, and "penstock demo", which runs a stream on it.
    "penstock COMMAND --help" explains a command. Options before the command, such as -v, apply to all of them.
    """
    context.obj = verbose
    if context.invoked_subcommand != "doctor":
        for name in ("penstock-cli", "penstock-testing"):
            check_core_version(next(iter(importlib.metadata.distributions(name=name)), None))
    if verbose:
        set_level("INFO")


for _subcommand in (demo, run, pack, plugins, from_testing("rate"), from_testing("simulate"), doctor, conf, checkpoint):
    penstock.add_command(_subcommand)


def main() -> None:
    """Run the command and exit the process."""
    penstock(prog_name="penstock")
