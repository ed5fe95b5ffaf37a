"""``penstock run``: a program, as ``python`` would run it, on a machine made ready for it.

Owns what the program finds: a Java, defaults for its SparkContext, ``sys.argv``, ``sys.path``, and the exit code it
leaves. Never prints configuration: it may hold secrets. The program runs on the main thread, in this process.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

import click

from penstock.cli.local_master import local_master
from penstock.launch.java import ensure_java
from penstock.launch.launch_conf import UDS, set_submit_args


def _pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        key, equals, _ = value.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter("must be spark.KEY=VALUE")
    return values


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("app", metavar="APP.py", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--master", metavar="URL", help="Where Spark runs.  [default: local[cores + receivers]]")
@click.option(
    "--receivers",
    default=1,
    show_default=True,
    type=click.IntRange(min=0),
    help="Receivers to make room for, when Spark runs here.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="A setting of Spark's or Penstock's; repeatable.",
)
@click.pass_obj
def run(
    verbose: bool, app: Path, args: tuple[str, ...], master: str | None, receivers: int, conf: tuple[str, ...]
) -> None:
    """Run a program, with Java found and Spark set up for it.

    It runs as "python APP.py ARGS..." would, and its exit code is kept. What the program itself sets on its SparkConf
    wins over the options given here.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)  # Spark's scripts look for `python3` otherwise
    defaults = {
        "spark.master": local_master(receivers),
        "spark.ui.showConsoleProgress": "false",  # a receiver is a stage that never ends
        UDS: "true",
    }
    if verbose:
        defaults["spark.penstock.log.level"] = "INFO"
    options = [part for pair in conf for part in ("--conf", pair)]
    set_submit_args(defaults, [*(["--master", master] if master else []), *options])
    _run_as_main(app.absolute(), args)


def _run_as_main(app: Path, args: tuple[str, ...]) -> None:
    folder = str(app.resolve().parent)
    sys.argv = [str(app), *args]
    if not sys.flags.safe_path:
        sys.path[0] = folder
        # For Spark's Python workers on this machine: modules beside the program, as with spark-submit.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    try:
        runpy.run_path(str(app), run_name="__main__")
    except SystemExit:
        raise
    except BaseException as error:
        # As the interpreter ends, but for the frames that are not the program's.
        error.__traceback__ = _inside(app, error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _inside(app: Path, traceback: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the program; ``None`` when it did not get there."""
    while traceback is not None and not traceback.tb_frame.f_code.co_filename.startswith(str(app)):
        traceback = traceback.tb_next
    return traceback
