"""``penstock simulate``: runs the engine in a simulator under the faults of many seeds. Imports Spark when it runs."""

from __future__ import annotations

import time
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from penstock_cli.shared import as_json_option, examples, is_live, print_json
from penstock_testing.simulation.faults import FAULTS

if TYPE_CHECKING:
    from penstock_testing import SimulationOutcome

_SEEDS = 100


@define
class _Summary:
    """What many simulations had in common."""

    first_seed: int
    seeds: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    faults: Counter[str] = field(factory=Counter)
    #: Number of simulations in which both faults happened.
    pairs: Counter[str] = field(factory=Counter)
    violations: dict[int, list[str]] = field(factory=dict)

    def add(self, outcome: SimulationOutcome) -> None:
        """Count a simulation."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.steps += outcome.steps
        self.faults.update(outcome.faults)
        self.pairs.update(f"{one} and {other}" for one, other in combinations(sorted(outcome.faults), 2))
        if outcome.violations:
            self.violations[outcome.seed] = list(outcome.violations)


def _known(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = tuple(filter(None, (name.strip() for name in value.split(","))))
    for name in names:
        if name not in FAULTS:
            raise click.BadParameter(f"no fault is named {name!r}; they are: {', '.join(FAULTS)}")
    return names


@click.command(
    epilog="\n\n".join(
        [
            "\n".join(["\b", "Faults:", *(f"  {name:<8} {what}" for name, what in FAULTS.items())]),
            examples(
                ("simulate", f"{_SEEDS} seeds with faults of all kinds"),
                ("simulate --seeds 100000 --minutes 60", "as many seeds as an hour allows"),
                ("simulate --seeds 500 --faults kill,power", "kills and power failures only"),
                ("simulate --seed 17", "one seed with its history, the same each time"),
            ),
        ]
    )
)
@click.option("--seeds", type=click.IntRange(1), metavar="N", help=f"Number of seeds; {_SEEDS} without --seed.")
@click.option(
    "--seed", type=click.IntRange(0), metavar="S", help="The first seed, 0 by default. Alone: print its history."
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), metavar="M", help="Begin no seed after this time.")
@click.option(
    "--faults", metavar="NAME,...", callback=_known, help="Faults that may happen; by default each seed chooses some."
)
@as_json_option
@click.pass_context
def simulate(
    context: click.Context,
    seeds: int | None,
    seed: int | None,
    minutes: float | None,
    faults: tuple[str, ...] | None,
    as_json: bool,
) -> None:
    """Search for orders of events that break a guarantee.

    Runs the engine in one process, on virtual time, beside a simulated cluster, network and disk. A seed decides in
    which order threads run, how long everything takes, and which faults happen when. A program with two receivers, a
    window and state must lose and repeat nothing. The exit code is 1 if a seed breaks a guarantee.
    """
    first = seed or 0
    if seed is not None and seeds is None:
        outcome = _run(seed, faults)
        if as_json:
            print_json(_one(outcome))
        else:
            click.echo("\n".join([*outcome.trace, *_lines_of(outcome)]))
        context.exit(1 if outcome.violations else 0)
    summary = _Summary(first)
    began_s = time.monotonic()
    end_s = None if minutes is None else began_s + 60 * minutes
    with _progress() as progress:
        bar = progress.add_task("seeds", total=seeds or _SEEDS)
        for number in range(first, first + (seeds or _SEEDS)):
            if end_s is not None and time.monotonic() >= end_s:
                break
            outcome = _run(number, faults)
            summary.add(outcome)
            if outcome.violations and not as_json:
                progress.console.print(f"seed {number}: {outcome.violations[0]}", markup=False, highlight=False)
            progress.update(bar, advance=1, description=f"seeds, {len(summary.violations)} with a violation")
    took_s = time.monotonic() - began_s
    if as_json:
        print_json(_all(summary, took_s))
    else:
        chosen = "" if faults is None else f" --faults {','.join(faults)}"
        click.echo("\n".join(_lines(summary, took_s, chosen)))
    context.exit(1 if summary.violations else 0)


def _run(seed: int, faults: tuple[str, ...] | None) -> SimulationOutcome:
    from penstock_testing import Simulation

    return Simulation(seed, faults).run()


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True) if is_live() else Console()
    return Progress(*columns, console=console, transient=True, disable=not is_live())


def _lines_of(outcome: SimulationOutcome) -> list[str]:
    found = [f"violated: {violation}" for violation in outcome.violations] or ["No guarantee was broken."]
    return [
        "",
        f"history {outcome.digest}, {len(outcome.trace)} lines, {outcome.virtual_s:.1f} s of virtual time",
        *found,
    ]


def _lines(summary: _Summary, took_s: float, chosen: str) -> list[str]:
    counts = ", ".join(f"{name} {count}" for name, count in sorted(summary.faults.items())) or "none"
    virtual, steps = f"{summary.virtual_s:,.0f} s of virtual time", f"{summary.steps:,} steps"
    lines = [
        f"{summary.seeds} seeds from {summary.first_seed}: {virtual} in {took_s:,.0f} s, {steps}",
        f"faults: {counts}",
    ]
    if not summary.violations:
        return [*lines, "No guarantee was broken."]
    seeds = ", ".join(map(str, summary.violations))
    first = next(iter(summary.violations))
    return [
        *lines,
        f"Seeds that broke a guarantee: {seeds}",
        f"The history of one: penstock simulate --seed {first}{chosen}",
    ]


def _one(outcome: SimulationOutcome) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "digest": outcome.digest,
        "faults": dict(outcome.faults),
        "violations": list(outcome.violations),
        "virtual_s": outcome.virtual_s,
        "steps": outcome.steps,
        "trace": list(outcome.trace),
    }


def _all(summary: _Summary, took_s: float) -> dict[str, Any]:
    return {
        "first_seed": summary.first_seed,
        "seeds": summary.seeds,
        "virtual_s": summary.virtual_s,
        "took_s": round(took_s, 1),
        "steps": summary.steps,
        "faults": dict(sorted(summary.faults.items())),
        "pairs": dict(sorted(summary.pairs.items())),
        "violations": {str(seed): found for seed, found in summary.violations.items()},
    }
