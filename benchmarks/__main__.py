"""The command line of the comparison: ``python -m benchmarks``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from attrs import evolve

from benchmarks import long_run, machine
from benchmarks.comparison import Outcome, run_point
from benchmarks.engines import ENGINES
from benchmarks.measurement import ROOT
from benchmarks.processes import ends_on_sigterm
from benchmarks.report import table, write_page
from benchmarks.rows import HEADLINES, Row, make_rows
from penstock.errors import PenstockError
from penstock_cli.java import ensure_java
from penstock_cli.shared import conf_pairs

RESULTS = ROOT / "build" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"


def _list(context: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    click.echo("rows:")
    for row in make_rows(machine.cores()).values():
        click.echo(f"  {row.name:14} {row.title}" + (f", over {row.axis}" if row.axis else ""))
    click.echo(f"  {'headlines':14} The README's figures: {', '.join(HEADLINES)}")
    click.echo("engines:")
    for engine in ENGINES.values():
        work = f" ({engine.work})" if engine.work else ""
        click.echo(f"  {engine.name:18} {engine.reason_not_available or engine.title + work}")
    context.exit()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[ROW]...")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="Show rows and engines.")
@click.option("--quick", is_flag=True, help="Sizes that say nothing about speed, one round: does everything work?")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each engine runs.  [default: 3, quick: 1]")
@click.option("--engine", "chosen", multiple=True, metavar="NAME", help="Run these engines only; repeatable.")
@click.option("--point", "points", multiple=True, type=float, metavar="X", help="Run these sizes only; repeatable.")
@click.option("--seed", default=7, show_default=True, help="Of the data.")
@click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", callback=conf_pairs, help="A key of Spark or Penstock; repeatable."
)
@click.option(
    "--results",
    default=RESULTS,
    show_default="build/benchmarks",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the figures, one file a row and size; those that were run before stay.",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page of all figures in the folder.  [default: docs/benchmarks.md if all rows run in full]",
)
@click.option("--page-only", is_flag=True, help="Run nothing: write the page of the figures that are there.")
def main(
    names: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    chosen: tuple[str, ...],
    points: tuple[float, ...],
    seed: int,
    conf: dict[str, str],
    results: Path,
    page: Path | None,
    page_only: bool,
) -> None:
    """Compare Penstock's speed with that of its peers.

    All engines of a row process the same data alternately, each in processes of its own. Every answer is checked
    against plain Python. Without a ROW all rows run, which takes hours; nothing else should run meanwhile.
    """
    all_rows = make_rows(machine.cores(), is_quick=quick)
    rows = [] if page_only else [_select(all_rows, *choice) for choice in _choices(names or all_rows, chosen, points)]
    is_whole = not (names or chosen or points or quick or conf)
    try:
        ensure_java()
    except PenstockError as error:
        raise click.ClickException(str(error)) from error
    failures: list[str] = []
    began = time.monotonic()
    for number, row in enumerate(rows, 1):
        click.echo(f"[{number}/{len(rows)}] {row.title} ({time.monotonic() - began:.0f} s so far)")
        outcomes = list[Outcome]()
        for point in row.points:
            try:
                with ends_on_sigterm():
                    outcome = run_point(
                        row,
                        point,
                        row.engines,
                        rounds=rounds or (1 if quick else 3),
                        seed=seed,
                        is_quick=quick,
                        conf=conf,
                        report=click.echo,
                    )
            except machine.BusyError as error:
                raise click.ClickException(str(error)) from error
            outcome.save(results)
            outcomes.append(outcome)
            failures += outcome.failures
        click.echo(f"\n{table(row, outcomes)}\n")
    target = page or (PAGE if is_whole else None)
    if target:
        measured = [Outcome.load(path) for path in sorted(results.glob("*.json"))]
        chosen_ones = [outcome for outcome in measured if outcome.is_quick == quick]
        click.echo(f"written: {write_page(target, all_rows, chosen_ones, results / long_run.FOLDER)}")
    for failure in failures:
        click.echo(f"FAILED: {failure}", err=True)
    sys.exit(bool(failures))


def _choices(
    names: Iterable[str], chosen: tuple[str, ...], points: tuple[float, ...]
) -> Iterator[tuple[str, tuple[str, ...], tuple[float, ...]]]:
    """Names of rows, with the engines and points that run there; ``headlines`` stands for several rows."""
    for name in names:
        if name == "headlines":
            yield from ((row, chosen or engines, points or xs) for row, (engines, xs) in HEADLINES.items())
        else:
            yield name, chosen, points


def _select(rows: dict[str, Row], name: str, engines: tuple[str, ...], points: tuple[float, ...]) -> Row:
    """A row with the engines and points that were chosen.

    Raises:
        click.UsageError: there is no such row, engine or point.
    """
    if name not in rows:
        raise click.UsageError(f"no row {name!r}; rows: {', '.join(rows)}")
    if unknown := [engine for engine in engines if engine not in ENGINES]:
        raise click.UsageError(f"no engine {unknown[0]!r}; engines: {', '.join(ENGINES)}")
    row = rows[name]
    kept = tuple(engine for engine in row.engines if not engines or engine in engines)
    sizes = tuple(point for point in row.points if not points or point.x in points)
    if not kept:
        raise click.UsageError(f"row {name} has none of these engines; it has: {', '.join(row.engines)}")
    if not sizes:
        values = ", ".join(f"{point.x:g}" for point in row.points)
        raise click.UsageError(f"row {name} has none of these points; it has: {values}")
    return evolve(row, engines=kept, points=sizes)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
