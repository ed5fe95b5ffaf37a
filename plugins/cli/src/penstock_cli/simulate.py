"""``penstock simulate``: runs the engine in a simulator under the faults of many seeds. Imports Spark when it runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from itertools import combinations, count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from penstock_cli.shared import as_json_option, examples, is_live, print_json
from penstock_testing.simulation.faults import FAULTS, SimulatedFault, check_names
from penstock_testing.simulation.history_svg import draw_history
from penstock_testing.simulation.minimize import as_test, minimized

if TYPE_CHECKING:
    from penstock_testing import SimulationOutcome

_SEEDS = 100
# Seconds between two lines about a search whose output is no terminal.
_REPORT_S = 60.0


@define
class _Summary:
    """What many simulations had in common."""

    first_seed: int
    seeds: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    steps: int = 0
    faults: Counter[str] = field(factory=Counter)
    #: Number of simulations in which both faults happened.
    pairs: Counter[str] = field(factory=Counter)
    violations: dict[int, list[str]] = field(factory=dict)

    def add(self, outcome: SimulationOutcome) -> None:
        """Count a simulation."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.cpu_s += outcome.cpu_s
        self.steps += outcome.steps
        self.faults.update(outcome.faults)
        self.pairs.update(f"{one} and {other}" for one, other in combinations(sorted(outcome.faults), 2))
        if outcome.violations:
            self.violations[outcome.seed] = list(outcome.violations)


def _known(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = tuple(filter(None, (name.strip() for name in value.split(","))))
    try:
        check_names(names)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return names


@click.command(
    epilog="\n\n".join(
        [
            "\n".join(["\b", "Faults:", *(f"  {name:<8} {what}" for name, what in FAULTS.items())]),
            examples(
                ("simulate", f"{_SEEDS} seeds with faults of all kinds"),
                ("simulate --minutes 60", "as many seeds as an hour allows"),
                ("simulate --seeds 500 --faults kill,power", "kills and power failures only"),
                ("simulate --seed 17", "one seed with its history, the same each time"),
                ("simulate --seed 17 --picture history.svg", "which process did what when"),
            ),
        ]
    )
)
@click.option(
    "--seeds", type=click.IntRange(1), metavar="N", help=f"Number of seeds; {_SEEDS} without --seed and --minutes."
)
@click.option(
    "--seed", type=click.IntRange(0), metavar="S", help="The first seed, 0 by default. Alone: print its history."
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), metavar="M", help="Begin no seed after this time.")
@click.option(
    "--faults", metavar="NAME,...", callback=_known, help="Faults that may happen; by default each seed chooses some."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Draw the history of a single seed as SVG.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Seeds that run at the same time; by default the number of cores.",
)
@as_json_option
@click.pass_context
def simulate(
    context: click.Context,
    seeds: int | None,
    seed: int | None,
    minutes: float | None,
    faults: tuple[str, ...] | None,
    picture: Path | None,
    processes: int | None,
    as_json: bool,
) -> None:
    """Search for orders of events that break a guarantee.

    Runs the engine in one process, on virtual time, beside a simulated cluster, network and disk. A seed decides in
    which order threads run, how long everything takes, and which faults happen when. A program with two receivers, a
    window and state must lose and repeat nothing. If a seed breaks a guarantee, the exit code is 1, and a test with the
    fewest faults that break it is printed. Ctrl-C or SIGTERM ends the search with its summary.
    """
    if seed is not None and seeds is None and minutes is None:
        outcome = _run(seed, faults)
        if picture is not None:
            picture.write_text(draw_history(outcome), encoding="utf-8")
        if as_json:
            print_json(_one(outcome))
        else:
            click.echo("\n".join([*outcome.trace, *_lines_of(outcome)]))
            if outcome.violations:
                _print_test(outcome)
        context.exit(1 if outcome.violations else 0)
    if picture is not None:
        raise click.UsageError("--picture draws one seed: name it with --seed, and leave --seeds and --minutes out")
    first, total = seed or 0, seeds or (_SEEDS if minutes is None else None)
    summary = _Summary(first)
    broken: list[SimulationOutcome] = []
    reported_s = began_s = time.monotonic()
    end_s = None if minutes is None else began_s + 60 * minutes
    outcomes = _outcomes(count(first) if total is None else range(first, first + total), faults, end_s, processes)
    with _progress() as progress, closing(outcomes), suppress(KeyboardInterrupt), _interruptible():
        bar = progress.add_task("seeds", total=total)
        for outcome in outcomes:
            summary.add(outcome)
            if outcome.violations:
                broken.append(outcome)
                if not as_json:
                    text = f"seed {outcome.seed}: {outcome.violations[0]}"
                    progress.console.print(text, markup=False, highlight=False)
            progress.update(bar, advance=1, description=f"seeds, {len(broken)} with a violation")
            # A log has no bar.
            if not is_live() and time.monotonic() - reported_s >= _REPORT_S:
                reported_s = time.monotonic()
                ran = f"{summary.seeds} seeds in {reported_s - began_s:,.0f} s, {len(broken)} with a violation"
                click.echo(ran, err=True)
    took_s = time.monotonic() - began_s
    if as_json:
        print_json(_all(summary, took_s))
    else:
        chosen = "" if faults is None else f" --faults {','.join(faults)}"
        click.echo("\n".join(_lines(summary, took_s, chosen)))
        if broken:
            _print_test(min(broken, key=lambda outcome: outcome.seed))
    context.exit(1 if broken else 0)


def _run(seed: int, faults: Sequence[str] | Sequence[SimulatedFault] | None) -> SimulationOutcome:
    from penstock_testing import Simulation

    return Simulation(seed, faults).run()


def _outcomes(
    seeds: Iterable[int], faults: tuple[str, ...] | None, end_s: float | None, processes: int | None
) -> Generator[SimulationOutcome]:
    """Run seeds until a time of the monotonic clock, several at once, and give their outcomes as they end."""
    chosen = iter(seeds if end_s is None else takewhile(lambda _seed: time.monotonic() < end_s, seeds))
    processes = processes or os.cpu_count() or 1
    if processes == 1:
        yield from (_run(seed, faults) for seed in chosen)
        return
    # A process of its own for each: a simulation replaces modules of the engine while it runs.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _ignore_interrupts)
    running: set[Future[SimulationOutcome]] = set()
    try:
        while True:
            while len(running) < 2 * processes and (seed := next(chosen, None)) is not None:
                running.add(pool.submit(_run, seed, faults))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in ended)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have SIGTERM end the search like Ctrl-C: the processes of a pool outlive one that is terminated."""
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that prints the summary."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _print_test(outcome: SimulationOutcome) -> None:
    """Find the fewest faults that break a guarantee, and print them as a test."""
    simulations = count(1)

    def breaks(faults: Sequence[SimulatedFault]) -> bool:
        click.echo(f"simulation {next(simulations)} with {len(faults)} faults", err=True)
        return bool(_run(outcome.seed, faults).violations)

    fewest = minimized(outcome.planned, breaks)
    what = f"{len(fewest)} of its {len(outcome.planned)} faults"
    click.echo(f"\nSeed {outcome.seed} needs {what}. As a test:\n\n{as_test(outcome.seed, fewest)}", nl=False)


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
    speed = summary.virtual_s / summary.cpu_s if summary.cpu_s else 0.0
    lines = [
        f"{summary.seeds} seeds from {summary.first_seed}: {virtual} in {took_s:,.0f} s, {steps}",
        f"processor time: {summary.cpu_s:,.0f} s, {speed:,.0f} simulated hours per hour",
        f"faults: {counts}",
        *_lines_of_pairs(summary),
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


def _lines_of_pairs(summary: _Summary) -> list[str]:
    """How many of the pairs of faults have met in a seed, the rarest of them, and in how many seeds each has met."""
    kinds = len(summary.faults)
    if kinds < 2 or not summary.pairs:
        return []
    name, times = min(summary.pairs.items(), key=lambda pair: (pair[1], pair[0]))
    met, all_pairs = len(summary.pairs), kinds * (kinds - 1) // 2
    lines = [f"pairs of faults: {met} of {all_pairs} met in a seed, the rarest in {times}: {name}"]
    names = sorted(summary.faults)
    for number, one in enumerate(names[:-1]):
        others = names[number + 1 :]
        lines.append(f"  {one} and: " + ", ".join(f"{other} {summary.pairs[f'{one} and {other}']}" for other in others))
    return lines


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
        "cpu_s": round(summary.cpu_s, 1),
        "steps": summary.steps,
        "faults": dict(sorted(summary.faults.items())),
        "pairs": dict(sorted(summary.pairs.items())),
        "violations": {str(seed): found for seed, found in summary.violations.items()},
    }
