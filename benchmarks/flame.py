"""Draws a flame graph of the hot paths of a row with py-spy, from outside: ``python -m benchmarks.flame ROW``."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import click

from benchmarks import machine
from benchmarks.engines import ENGINES
from benchmarks.measurement import measure
from benchmarks.processes import ends_on_sigterm, processes_of
from benchmarks.rows import make_rows
from penstock_cli.java import ensure_java

#: The processes to profile: the Python driver, or Spark's Python workers including the receiver's.
PARTS = ("driver", "workers")

_PY_SPY = Path(sys.executable).with_name("py-spy")
_START_S, _END_S = 120.0, 60.0


class Recorder:
    """Runs py-spy on the processes of a measurement until they end.

    Args:
        part: which processes.
        output: the SVG file.
        rate: samples per second.
    """

    def __init__(self, part: str, output: Path, rate: int) -> None:
        self._part = part
        self._output = output
        self._rate = rate
        self._thread: threading.Thread | None = None
        self.problem = ""

    def start(self, session: int) -> None:
        """Attach to a program once its processes run."""
        self._thread = threading.Thread(target=self._record, args=(session,), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until the graph is written."""
        if self._thread:
            self._thread.join(_END_S)

    def _record(self, session: int) -> None:
        pid = self._find(session)
        if not pid:
            self.problem = f"the program had no process of the part {self._part}"
            return
        command = [str(_PY_SPY), "record", "--subprocesses", "--nonblocking"]
        command += ["--pid", str(pid), "--rate", str(self._rate), "--duration", "3600", "--output", str(self._output)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if not self._output.exists():
            self.problem = (ran.stderr or ran.stdout).strip() or f"py-spy exited with {ran.returncode}"

    def _find(self, session: int) -> int:
        """The pid of the driver, or of the daemon that forks the workers; 0 if it does not start in time."""
        if self._part == "driver":
            return session
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and (processes := processes_of(session)):
            workers = sorted(pid for pid, process in processes.items() if process.role == "workers")
            if len(workers) > 1:
                return workers[0]
            time.sleep(0.05)
        return 0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="ROW")
@click.option("--engine", default="penstock", show_default=True, type=click.Choice(list(ENGINES)), metavar="NAME")
@click.option("--part", default="workers", show_default=True, type=click.Choice(PARTS), help="Whose stacks.")
@click.option("--point", type=float, metavar="X", help="The size.  [default: the row's first]")
@click.option("--rate", default=200, show_default=True, type=click.IntRange(1, 1000), help="Samples a second.")
@click.option("--seed", default=7, show_default=True, help="Of the data.")
@click.option("--quick", is_flag=True, help="At a size that says nothing about speed.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="SVG file.  [default: flame-ROW-ENGINE-PART.svg]"
)
def main(
    name: str, engine: str, part: str, point: float | None, rate: int, seed: int, quick: bool, output: Path | None
) -> None:
    """Draw a flame graph of one run of a row's program; py-spy comes with make bench."""
    rows = make_rows(machine.cores(), is_quick=quick)
    if name not in rows:
        raise click.UsageError(f"no row {name!r}; rows: {', '.join(rows)}")
    points = {point.x: point for point in rows[name].points}
    if point is not None and point not in points:
        raise click.UsageError(f"row {name} has no point {point:g}; it has: {', '.join(f'{x:g}' for x in points)}")
    if not _PY_SPY.exists():
        raise click.ClickException("py-spy is not installed: make bench installs it")
    ensure_java()
    target = output or Path(f"flame-{name}-{engine}-{part}.svg")
    target.unlink(missing_ok=True)
    recorder = Recorder(part, target, rate)
    where = next(iter(points.values())) if point is None else points[point]
    with ends_on_sigterm():
        measured = measure(ENGINES[engine], rows[name], where, seed=seed, beside=recorder.start)
    recorder.finish()
    if problem := measured.reason or recorder.problem:
        raise click.ClickException(problem)
    click.echo(f"written: {target}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.flame")
