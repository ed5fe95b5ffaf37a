"""``penstock run``: runs a program as ``python`` would, with Java found and Spark configured.

The program runs on the main thread of this process; with ``--deploy-mode cluster`` this process becomes spark-submit.
Configuration is never printed, because it may hold secrets.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

import click

from penstock.spi import conf_here
from penstock_cli.java import ensure_java
from penstock_cli.launch import PROGRESS, UDS, local_master, set_submit_args, spark_submit, submit_options
from penstock_cli.pack import FOLDER, is_packed
from penstock_cli.shared import conf_pairs, examples

_PYTHONPATH = "spark.executorEnv.PYTHONPATH"


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        ("run app.py", "on this machine, a slot for each core and one for a receiver"),
        (
            "run --receivers 3 --watch app.py --port 9999",
            "three receivers, a table of the batches; --port is the program's",
        ),
        ("run --conf spark.streaming.backpressure.enabled=true app.py", "with rate control"),
        ("run --master spark://host:7077 --archives penstock.tar.gz app.py", "on a cluster"),
    ),
)
@click.argument("app", metavar="APP.py")
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
@click.option("--name", metavar="NAME", help="Name of the application.")
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    show_default=True,
    help="Where the program runs: here, or on the cluster.",
)
@click.option("--py-files", metavar="FILES", help="Python files and zips to import, comma-separated.")
@click.option("--packages", metavar="COORDINATES", help="Maven packages for the JVMs, comma-separated.")
@click.option(
    "--archives",
    metavar="FILES",
    help='Archives that executors unpack, comma-separated; what is in those of "penstock pack" can be imported there.',
)
@click.option(
    "--properties-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Configuration file to read instead of spark-defaults.conf.",
)
@click.option("--watch", is_flag=True, help="Show a table of the batches while the program runs.")
@click.pass_obj
def run(
    verbose: bool,
    /,
    app: str,
    args: tuple[str, ...],
    master: str | None,
    receivers: int,
    conf: dict[str, str],
    deploy_mode: str,
    watch: bool,
    **passed_on: str | None,
) -> None:
    """Run a program with Java found and Spark configured.

    Runs it as "python APP.py ARGS..." does, with the same exit code. Options of this command come before APP.py; all
    after it are the program's. What the program sets on its SparkConf overrides them. With --deploy-mode cluster,
    everything is passed to spark-submit.
    """
    ensure_java()
    defaults = {PROGRESS: "false", UDS: "true"}
    if verbose:
        defaults["spark.penstock.log.level"] = "INFO"
    if (archives := passed_on["archives"]) is not None:
        passed_on["archives"], packed = _with_folders(archives)
        if packed:
            # Spark unpacks archives into the working directory of each executor.
            defaults[_PYTHONPATH] = os.pathsep.join(f"./{folder}" for folder in packed)
    options = ["--master", master] if master else []
    options += [part for name, value in passed_on.items() if value for part in (f"--{name.replace('_', '-')}", value)]
    options += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    if not Path(app).is_file() and not (deploy_mode == "cluster" and "://" in app):
        raise click.BadParameter(f"File {app!r} does not exist.", param_hint="'APP.py'")
    if deploy_mode == "cluster":
        _submit(defaults, options, app, args, watch=watch)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)  # otherwise Spark's scripts use `python3`
    set_submit_args({"spark.master": local_master(receivers), **defaults}, options)
    _import_from((passed_on["py_files"] or "").split(","))
    if watch:
        # Imports PySpark.
        from penstock_cli.watch import watching

        with watching():
            _run_as_main(Path(app).absolute(), args)
    else:
        _run_as_main(Path(app).absolute(), args)


def _with_folders(archives: str) -> tuple[str, list[str]]:
    """Name the folder of each archive of ``penstock pack``; return the archives, and these folders."""
    named, packed = [], list[str]()
    for archive in archives.split(","):
        path, _, folder = archive.partition("#")
        if is_packed(Path(path)):
            packed.append(folder or FOLDER)
            named.append(f"{path}#{packed[-1]}")
        else:
            named.append(archive)
    return ",".join(named), packed


def _import_from(py_files: list[str]) -> None:
    """Let the program import Python files before it creates the SparkContext, as under spark-submit."""
    for file in filter(None, py_files):
        path = Path(file).absolute()
        sys.path.insert(1, str(path.parent if path.suffix == ".py" else path))


def _submit(defaults: dict[str, str], options: list[str], app: str, args: tuple[str, ...], *, watch: bool) -> None:
    """Replace this process with spark-submit, which runs the program on the cluster.

    Raises:
        click.UsageError: the program cannot run on that cluster.
    """
    set_submit_args({}, options)
    master = conf_here().get("spark.master", "")
    if not master or master.startswith("local"):
        raise click.UsageError(f"--deploy-mode cluster needs the --master of a cluster, not {master or 'none'}")
    if master.startswith("spark://"):
        raise click.UsageError(
            "Spark's standalone cluster runs Python programs in client mode only: leave out --deploy-mode cluster, and "
            "run the command on a host of the cluster"
        )
    if watch:
        raise click.UsageError("--watch shows batches of a program that runs here: leave out --deploy-mode cluster")
    command = [spark_submit(), "--deploy-mode", "cluster", *submit_options(defaults, options), app, *args]
    os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
    os.execv(command[0], command)


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
        # Like the interpreter, show no frames above the program's own.
        error.__traceback__ = _inside(app, error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _inside(app: Path, traceback: TracebackType | None) -> TracebackType | None:
    """The part of a traceback from the program's first frame on; ``None`` when there is no such frame."""
    while traceback is not None and not traceback.tb_frame.f_code.co_filename.startswith(str(app)):
        traceback = traceback.tb_next
    return traceback
