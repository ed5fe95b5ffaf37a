"""``penstock run``: runs a program as ``python`` would, with Java found and Spark configured.

The program runs on the main thread of this process. Configuration is never printed, because it may hold secrets.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

import click

from penstock.cli.shared import conf_pairs
from penstock.launch.java import ensure_java
from penstock.launch.launch_conf import PROGRESS, UDS, local_master, set_submit_args


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("app", metavar="APP.py", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--master", metavar="URL", help="Spark master.  [default: local[cores + receivers]]")
@click.option(
    "--receivers",
    default=1,
    show_default=True,
    type=click.IntRange(min=0),
    help="Number of receivers that need a slot of the default master.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=conf_pairs,
    help="A configuration key of Spark or Penstock; repeatable.",
)
@click.option("--watch", is_flag=True, help="Show a table of the batches while the program runs.")
@click.pass_obj
def run(
    verbose: bool,
    app: Path,
    args: tuple[str, ...],
    master: str | None,
    receivers: int,
    conf: dict[str, str],
    watch: bool,
) -> None:
    """Run a program with Java found and Spark configured.

    Runs it as "python APP.py ARGS..." does, with the same exit code. What the program sets on its SparkConf overrides
    the options given here.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)  # otherwise Spark's scripts use `python3`
    defaults = {
        "spark.master": local_master(receivers),
        PROGRESS: "false",
        UDS: "true",
    }
    if verbose:
        defaults["spark.penstock.log.level"] = "INFO"
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    set_submit_args(defaults, [*(["--master", master] if master else []), *options])
    if watch:
        # Imports PySpark.
        from penstock.cli.watch import watching

        with watching():
            _run_as_main(app.absolute(), args)
    else:
        _run_as_main(app.absolute(), args)


def _run_as_main(app: Path, args: tuple[str, ...]) -> None:
    folder = str(app.resolve().parent)
    sys.argv = [str(app), *args]
    if not sys.flags.safe_path:
        sys.path[0] = folder
        # Spark's Python workers on this machine find modules beside the program, as with spark-submit.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    try:
        runpy.run_path(str(app), run_name="__main__")
    except SystemExit:
        raise
    except BaseException as error:
        # As the interpreter does, without the frames above the program's.
        error.__traceback__ = _inside(app, error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _inside(app: Path, traceback: TracebackType | None) -> TracebackType | None:
    """The part of a traceback from the program's first frame on; ``None`` when there is no such frame."""
    while traceback is not None and not traceback.tb_frame.f_code.co_filename.startswith(str(app)):
        traceback = traceback.tb_next
    return traceback
