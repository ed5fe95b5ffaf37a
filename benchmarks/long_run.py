"""Watches the memory of driver, JVM and workers over very many batches: ``python -m benchmarks.long_run``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import cattrs
import click
from attrs import asdict, frozen

from benchmarks import machine, plots
from benchmarks.measurement import ROOT, environment
from benchmarks.processes import ROLES, end_session, ends_on_sigterm, processes_of
from penstock_cli.java import ensure_java

#: Folder of the runs, next to the figures of the comparison.
FOLDER = "long-run"

# After a third of the run, all caches are full.
_SETTLED = 1 / 3
_MAX_DRAWN = 400
# Maximum growth over the rest of the run, fitted through all samples. No limit for the JVM, whose garbage collection
# varies.
_MAX_GROWTH_MB = {"driver": 5.0, "jvm": 20.0, "workers": 10.0}


@frozen
class Sample:
    """Memory at one time.

    Attributes:
        elapsed_s: since the first sample.
        batches: completed.
        records: in these batches.
        driver: MB of the Python driver.
        jvm: MB of the JVM.
        workers: MB of all Python workers.
    """

    elapsed_s: float
    batches: int
    records: int
    driver: float
    jvm: float
    workers: float


@frozen
class Run:
    """A completed run.

    Attributes:
        task: the arguments of the program.
        date: when it ended.
        failed: batches.
        machine: what it ran on.
        state: how busy that was before.
        samples: at least one.
    """

    task: Mapping[str, Any]
    date: str
    failed: int
    machine: Mapping[str, str]
    state: str
    samples: tuple[Sample, ...]

    @property
    def kind(self) -> str:
        """``manual`` or ``live``, by its clock."""
        return "manual" if self.task["is_manual"] else "live"

    @property
    def title(self) -> str:
        """A summary of the run and its result."""
        last = self.samples[-1]
        how = "under the manual clock" if self.task["is_manual"] else f"live, one every {self.task['interval_s']:g} s"
        ui = ", with the monitoring plugin" if self.task["has_ui"] else ""
        return (
            f"**{last.batches:,} batches {how}{ui}, in {last.elapsed_s / 60:,.0f} minutes: {self.failed:,} failed**, "
            f"{last.records:,} records.\nEnded {self.date}; {self.state}."
        )

    @property
    def table(self) -> str:
        """Memory of each role in Markdown."""
        lines = [
            "| memory, MB | after a third | at the end | growth over the last two thirds |",
            "|---|---:|---:|---:|",
        ]
        middle = next(sample for sample in self.samples if sample.elapsed_s >= self.samples[-1].elapsed_s * _SETTLED)
        for role in ROLES:
            first, last = (getattr(sample, role) for sample in (middle, self.samples[-1]))
            lines.append(f"| {role} | {first:,.0f} | {last:,.0f} | {growth_mb(self.samples, role):+.1f} |")
        return "\n".join(lines)

    @property
    def is_flat(self) -> bool:
        """Whether no batch failed and no role's memory grew by more than its limit."""
        return not self.failed and all(growth_mb(self.samples, role) <= most for role, most in _MAX_GROWTH_MB.items())

    def draw(self, path: Path) -> Path:
        """Plot memory over batches; returns the path."""
        figure, axes = plots.new_figure()
        drawn = self.samples[:: -(-len(self.samples) // _MAX_DRAWN)]
        for role in ROLES:
            axes.plot([sample.batches for sample in drawn], [getattr(sample, role) for sample in drawn], label=role)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("batches")
        axes.set_ylabel("resident memory without mapped files, MB")
        axes.legend()
        return plots.save(figure, path)

    def save(self, folder: Path) -> None:
        """Write the run into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.kind}.json").write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read a saved run."""
        return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), cls)


def growth_mb(samples: Sequence[Sample], role: str) -> float:
    """How much the memory of a role grows over the settled part of the run, by least squares."""
    settled = [sample for sample in samples if sample.elapsed_s >= samples[-1].elapsed_s * _SETTLED]
    times = [sample.elapsed_s for sample in settled]
    values: list[float] = [getattr(sample, role) for sample in settled]
    mean_time, mean_value = sum(times) / len(times), sum(values) / len(values)
    spread = sum((moment - mean_time) ** 2 for moment in times)
    if not spread:
        return 0.0
    product = sum((one - mean_time) * (other - mean_value) for one, other in zip(times, values, strict=True))
    return product / spread * (times[-1] - times[0])


def run(task: Mapping[str, Any]) -> tuple[list[Sample], int, int]:
    """Run the program; return its memory samples, the number of failed batches, and its exit code."""
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.programs.many_batches", json.dumps(task)],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        samples, failed = _watch(program, every_s=10.0)
        return samples, failed, program.wait(60)
    finally:
        end_session(program.pid)
        program.wait()


def _watch(program: subprocess.Popen[str], every_s: float) -> tuple[list[Sample], int]:
    samples: list[Sample] = []
    began, failed, printed = time.monotonic(), 0, -every_s
    assert program.stdout is not None
    for line in program.stdout:
        if not line.startswith("{"):
            continue
        progress = json.loads(line)
        failed = progress.get("failed", 0)
        elapsed_s = time.monotonic() - began
        memory = dict.fromkeys(ROLES, 0.0)
        for process in processes_of(program.pid).values():
            memory[process.role] += process.mb
        samples.append(Sample(elapsed_s, progress["batches"], progress["records"], **memory))
        if elapsed_s - printed >= every_s:
            printed = elapsed_s
            roles = ", ".join(f"{role} {mb:,.0f} MB" for role, mb in memory.items())
            click.echo(
                f"{elapsed_s:>8.0f} s {progress['batches']:>9,} batches {progress['records']:>13,} records  {roles}"
            )
    return samples, failed


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--batches", type=click.IntRange(min=1), help="With the manual clock, as fast as they run.  [100,000]")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="With the machine's clock instead.")
@click.option("--interval", default=1.0, show_default=True, help="Batch interval in seconds.")
@click.option("--ui", is_flag=True, help="With the monitoring plugin, which is off otherwise.")
@click.option(
    "--results",
    default=ROOT / "build" / "benchmarks" / FOLDER,
    show_default="build/benchmarks/long-run",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the samples and the plot.",
)
def main(batches: int | None, minutes: float | None, interval: float, ui: bool, results: Path) -> None:
    """Run 100,000 batches under the manual clock, or for minutes live, and watch memory.

    A receiver stores 1,000 lines/s; each batch reduces them by key. Exits with 1 if a batch failed, or if the memory of
    the driver grows by more than 5 MB or that of the workers by more than 10 MB in the last two thirds of the run.
    """
    if batches and minutes:
        raise click.UsageError("--batches is a run with the manual clock, --minutes a live one: choose one")
    is_manual = minutes is None
    task = {
        "batches": batches or (100_000 if is_manual else sys.maxsize),
        "seconds": 24 * 3600.0 if minutes is None else minutes * 60,
        "interval_s": interval,
        "is_manual": is_manual,
        "has_ui": ui,
    }
    ensure_java()
    state = machine.state()
    with ends_on_sigterm():
        samples, failed, code = run(task)
    if code or not samples:
        raise click.ClickException(f"the program exited with {code} after {len(samples)} samples")
    date = datetime.now(timezone.utc).isoformat(timespec="minutes")  # noqa: UP017  # the name that 3.11's docs use
    ran = Run(task, date, failed, machine.describe(), state, tuple(samples))
    ran.save(results)
    if missing := plots.reason_not_available():
        click.echo(f"no plot: {missing}")
    else:
        ran.draw(results / f"{ran.kind}.svg")
    click.echo(f"\n{ran.title}\n\n{ran.table}")
    sys.exit(not ran.is_flat)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.long_run")
