"""``penstock rate``: rate estimators, tried on simulated plants.

Owns the pictures and tables in the terminal. What happens is simulated by ``penstock.rate.plant_run``. Never imports
Spark; runs on the main thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli import installed
from penstock.cli.terminal import terminal
from penstock.conf import Settings
from penstock.errors import PenstockError, UnknownNameError
from penstock.launch.launch_conf import conf_here
from penstock.plugins.specs import RateEstimatorSpec, options_of, read_options
from penstock.rate.guarded_estimator import GuardedEstimator, configured_first_rate, make_estimator
from penstock.rate.plant import PLANTS, named_plant
from penstock.rate.plant_report import PlantReport, report
from penstock.rate.plant_run import MakeEstimator, PlantRun, simulate
from penstock.rate.plant_svg import draw

_BLOCKS = " ▁▂▃▄▅▆▇█"
_CHART_WIDTH, _CHART_HEIGHT, _LABEL_WIDTH = 100, 5, 9


def _pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(value.partition("=")[::2] for value in values)
    if any("=" not in value or not value.startswith("spark.") for value in values):
        raise click.BadParameter("must be spark.KEY=VALUE")
    return pairs


def _svg(_context: click.Context, _parameter: click.Parameter, file: Path | None) -> Path | None:
    if file is not None and file.suffix.lower() != ".svg":
        raise click.BadParameter(f"the drawing is SVG, and {file.name!r} does not end in .svg")
    return file


@click.group()
def rate() -> None:
    """Try rate estimators."""


@rate.command("simulate")
@click.option("--estimator", metavar="NAME", default="pid", show_default=True, help="From any installed plugin.")
@click.option("--plant", metavar="NAME", default="steady", show_default=True, help=f"Where: {', '.join(PLANTS)}.")
@click.option("--all", "everywhere", is_flag=True, help="Print a table of all estimators on all plants instead.")
@click.option("--seed", default=1, show_default=True, help="The same seed makes the same run.")
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="An estimator's option, spark.streaming.backpressure.NAME.OPTION=VALUE, or initialRate there; repeatable.",
)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_svg,
    help="Draw the run into this file, too; it ends in .svg.",
)
@click.pass_context
def simulate_command(
    context: click.Context,
    estimator: str,
    plant: str,
    everywhere: bool,
    seed: int,
    conf: dict[str, str],
    svg: Path | None,
) -> None:
    """See what an estimator does, without Spark.

    A plant is a simulated place where batches take their time and sources offer records. The estimator steers the
    sources by what each batch took, as it would in a program. Its options are those that a program started from here
    would have, and those given.
    """
    settings = Settings.parse({**conf_here(), **conf})
    plugins = installed.load()
    _check_names(conf, plugins.specs("rate_estimators"))
    if everywhere:
        for name in ("estimator", "plant", "svg"):
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                raise click.UsageError(f"--all and --{name} do not go together")
        _all(plugins.specs("rate_estimators"), settings, seed)
        return
    where = named_plant(plant)
    run = simulate(where, _maker(plugins.spec("rate_estimators", estimator), settings), seed)
    terminal().print(picture(run, f"{estimator} on {plant}: {where.summary}"))
    if svg is not None:
        try:
            svg.write_text(draw(run, f"{estimator} on {plant}: {where.summary}"), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(svg), error.strerror) from None


_PREFIX = "spark.streaming.backpressure."
_INITIAL_RATE = "spark.streaming.backpressure.initialRate"


def _check_names(conf: dict[str, str], specs: dict[str, RateEstimatorSpec]) -> None:
    """Refuse what would have no effect here.

    Raises:
        UnknownNameError: a key is neither an estimator's option nor the first rate; names the nearest.
    """
    known = [f"{_PREFIX}{name}.{option.name}" for name, spec in specs.items() for option in options_of(spec)]
    for key in conf:
        if key not in (*known, _INITIAL_RATE):
            raise UnknownNameError("option", key, [*known, _INITIAL_RATE])


def _maker(spec: RateEstimatorSpec, settings: Settings) -> MakeEstimator:
    """A maker of estimators with the options and the first rate of a program's configuration."""
    options = read_options("rate estimator", spec, settings.with_prefix(f"{_PREFIX}{spec.name}."))
    chosen = configured_first_rate(settings)

    def make(interval_ms: int) -> GuardedEstimator:
        guarded = make_estimator(spec, options, interval_ms)
        if chosen is not None:
            guarded.begin_with(chosen)
        return guarded

    return make


def _all(specs: dict[str, RateEstimatorSpec], settings: Settings, seed: int) -> None:
    reports: dict[str, list[PlantReport]] = {}
    left_out = []
    for name, spec in specs.items():
        try:
            maker = _maker(spec, settings)
            reports[name] = [report(simulate(plant, maker, seed)) for plant in PLANTS.values()]
        except PenstockError as error:
            left_out.append(f"left out: {error}")
    rows = [(plant, name, reports[name][number]) for number, plant in enumerate(PLANTS) for name in reports]
    terminal().print(comparison(rows))
    for name, said in reports.items():
        if failed := sum(each.failed for each in said):
            click.echo(f"rate estimator {name!r} raised {failed} errors")
    for line in left_out:
        click.echo(line)


# Measure → how it is written; the fields of PlantReport in their order.
_MEASURES: dict[str, Callable[[PlantReport], str]] = {
    "settling": lambda said: "never" if said.settling is None else str(said.settling),
    "overshoot": lambda said: f"{said.overshoot:.2f}",
    "queue": lambda said: f"{said.queue:.1f}",
    "used": lambda said: f"{said.used:.0%}",
    "in time": lambda said: f"{said.in_time:.0%}",
    "nearly": lambda said: f"{said.nearly_in_time:.0%}",
    "oscillation": lambda said: f"{said.oscillation:.1%}",
    "stable": lambda said: "yes" if said.stable else "no",
}


def comparison(rows: Sequence[tuple[str, str, PlantReport]]) -> RenderableType:
    """A table of reports: a row for each plant and estimator."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("plant", no_wrap=True)
    table.add_column("estimator", no_wrap=True)
    for name in _MEASURES:
        table.add_column(name, justify="right", no_wrap=True)
    for number, (plant, estimator, said) in enumerate(rows):
        first = number == 0 or rows[number - 1][0] != plant
        cells = [Text(write(said)) for write in _MEASURES.values()]
        table.add_row(plant if first else "", Text(estimator), *cells, style="" if said.stable else "yellow")
    return Group(
        table, Text("\nsettling in batches; overshoot and queue in intervals; what they mean: docs/rate-control.md")
    )


def picture(run: PlantRun, title: str) -> RenderableType:
    """A run as charts and a sentence for each measure."""
    interval = run.plant.interval_ms
    attainable = max(batch.attainable for batch in run.batches) * 1000 / interval
    parts: list[RenderableType] = [Text(title, "bold")]
    for stream in range(len(run.plant.sources)):
        limits = [min(batch.rates[stream], 2 * attainable) for batch in run.batches]
        label = "limit" if len(run.plant.sources) == 1 else f"limit of stream {stream}"
        parts += [Text(f"\n{label}, records/s (the plant can do {attainable:,.6g})", "dim"), *_chart(limits, fmean)]
    processing = [batch.processing_ms / interval for batch in run.batches]
    parts += [Text("\nprocessing, intervals", "dim"), *_chart(processing, max, bound=1.0)]
    waiting = [batch.scheduling_ms / interval for batch in run.batches]
    parts += [Text("\nwaiting, intervals", "dim"), *_chart(waiting, max)]
    return Group(*parts, Text(), *map(Text, _sentences(run)))


def _sentences(run: PlantRun) -> list[str]:
    said = report(run)
    settled = "never settled" if said.settling is None else f"settled after {said.settling} batches"
    refused = f", {said.refused} estimates were no rates" if said.refused else ""
    failed = f", {said.failed} errors were raised" if said.failed else ""
    longest = (
        f"longest batch {said.overshoot + 1:.2f} intervals" if said.overshoot else "no batch longer than the interval"
    )
    return [
        f"{len(run.batches)} batches every {run.plant.interval_ms:,} ms: {settled}, "
        f"{'stable' if said.stable else 'unstable'}{refused}{failed}",
        f"{longest}, longest wait {said.queue:.2f}; at the end the rate changes by {said.oscillation:.1%} a batch",
        f"{said.used:.0%} of what was attainable: {said.in_time:.0%} before the next batch was due, "
        f"{said.nearly_in_time:.0%} within two intervals",
        *([f"last decision: {run.reasons[-1]}"] if run.reasons and run.reasons[-1] else []),
    ]


def _chart(values: Sequence[float], join: Callable[[Sequence[float]], float], bound: float = math.inf) -> list[Text]:
    """Values as columns of blocks, several to a column where there is no room; yellow beyond a bound."""
    per_column = -(-len(values) // min(_CHART_WIDTH, max(terminal().width - _LABEL_WIDTH - 2, 10)))
    columns = [join(values[start : start + per_column]) for start in range(0, len(values), per_column)]
    top = max(max(columns), bound if math.isfinite(bound) else 0.0) or 1.0
    lines = []
    for row in reversed(range(_CHART_HEIGHT)):
        label = top if row == _CHART_HEIGHT - 1 else 0.0 if row == 0 else None
        line = Text(f"{'' if label is None else f'{label:,.4g}':>{_LABEL_WIDTH}} ", "dim")
        for value in columns:
            filled = value / top * _CHART_HEIGHT - row
            line.append(_BLOCKS[min(max(math.ceil(filled * 8), 0), 8)], "yellow" if value > bound else "green")
        lines.append(line)
    return lines
