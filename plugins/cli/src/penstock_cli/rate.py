"""``penstock rate``: runs rate estimators on simulated workloads and prints charts and tables. Imports no Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import attrs
import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock import PenstockError, RateEstimatorSpec
from penstock.spi import GuardedEstimator, Option, Plugins, UnknownNameError, conf_here
from penstock_cli.installed import completes, load_plugins, offered_names
from penstock_cli.shared import as_json_option, conf_pairs, examples, print_json, terminal
from penstock_testing.workload import WORKLOADS, named_workload
from penstock_testing.workload_report import WorkloadReport, report
from penstock_testing.workload_run import MakeEstimator, SimulatedBatch, WorkloadRun, simulate
from penstock_testing.workload_svg import draw

_BLOCKS = " ▁▂▃▄▅▆▇█"
_CHART_WIDTH, _CHART_HEIGHT, _LABEL_WIDTH = 100, 5, 9


def _svg(_context: click.Context, _parameter: click.Parameter, file: Path | None) -> Path | None:
    if file is not None and file.suffix.lower() != ".svg":
        raise click.BadParameter(f"{file.name!r} does not end in .svg")
    return file


@click.group(epilog=examples(("rate simulate --workload idle-then-burst", "what rate control does when load returns")))
def rate() -> None:
    """Try rate estimators without Spark.

    A rate estimator decides how many records per second the receivers may store.
    """


@rate.command(
    "simulate",
    # The option --workload also answers to its former name.
    context_settings={"token_normalize_func": lambda token: "workload" if token == "plant" else token},
    epilog=examples(
        ("rate simulate", "the estimator pid where load and speed are steady"),
        (
            "rate simulate --estimator model --workload step-down --svg run.svg",
            "another, on a machine that slows down",
        ),
        ("rate simulate --conf spark.streaming.backpressure.pid.minRate=500", "with an option"),
        ("rate simulate --all --json", "every estimator on every workload, for a script"),
    ),
)
@click.option(
    "--estimator",
    metavar="NAME",
    default="pid",
    show_default=True,
    shell_complete=completes(lambda: offered_names("rate_estimators")),
    help="The rate estimator, of any installed plugin.",
)
@click.option(
    "--workload",
    metavar="NAME",
    default="steady",
    show_default=True,
    shell_complete=completes(lambda: WORKLOADS),
    help=f"The simulated workload: one of {', '.join(WORKLOADS)}.",
)
@click.option("--all", "everywhere", is_flag=True, help="Compare all estimators on all workloads in a table.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same run.")
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=conf_pairs,
    help="spark.streaming.backpressure.NAME.OPTION=VALUE or spark.streaming.backpressure.initialRate=RATE; repeatable.",
)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_svg,
    help="Also draw the run into this .svg file.",
)
@as_json_option
@click.pass_context
def simulate_command(
    context: click.Context,
    estimator: str,
    workload: str,
    everywhere: bool,
    seed: int,
    conf: dict[str, str],
    svg: Path | None,
    as_json: bool,
) -> None:
    """Simulate a rate estimator.

    Shows what it would do before a program relies on it. A workload simulates sources that offer records and batches
    that take time. The estimator sets the sources' rates from the delays of each batch, as in a program. Its options
    come from the configuration here and from --conf.
    """
    plugins = load_plugins()
    configured = {**conf_here(), **conf}
    _check_names(conf, plugins.specs("rate_estimators"))
    if everywhere:
        for name in ("estimator", "workload", "svg"):
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                raise click.UsageError(f"--all cannot be combined with --{name}")
        _all(plugins, configured, seed, as_json=as_json)
        return
    where = named_workload(workload)
    run = simulate(where, _maker(estimator, plugins, configured), seed)
    if as_json:
        print_json(_measured(workload, estimator, report(run)) | {"batches": [_batch(batch) for batch in run.batches]})
    else:
        terminal().print(picture(run, f"{estimator} on {workload}: {where.summary}"))
    if svg is not None:
        try:
            svg.write_text(draw(run, f"{estimator} on {workload}: {where.summary}"), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(svg), error.strerror) from None


_PREFIX = "spark.streaming.backpressure."
_INITIAL_RATE = "spark.streaming.backpressure.initialRate"


def _check_names(conf: dict[str, str], specs: dict[str, RateEstimatorSpec]) -> None:
    """Refuse keys that have no effect on a simulation.

    Raises:
        UnknownNameError: a key is neither an estimator's option nor the initial rate; names the nearest.
    """
    option_keys = [
        f"{_PREFIX}{name}.{option.name}" for name, spec in specs.items() for option in Option.of(spec.options)
    ]
    for key in conf:
        if key not in (*option_keys, _INITIAL_RATE):
            raise UnknownNameError("configuration key", key, [*option_keys, _INITIAL_RATE])


def _maker(name: str, plugins: Plugins, conf: Mapping[str, str]) -> MakeEstimator:
    """A factory of estimators with the configured options and initial rate."""
    return lambda interval_ms: GuardedEstimator.installed(name, interval_ms, conf, plugins=plugins)


def _measured(workload: str, estimator: str, measures: WorkloadReport) -> dict[str, Any]:
    """The measures of a run as JSON values."""
    values = attrs.asdict(measures, filter=attrs.filters.exclude("run"))
    return {"workload": workload, "estimator": estimator, **values}


def _batch(batch: SimulatedBatch) -> dict[str, Any]:
    """A batch as JSON values. Infinity becomes null, because JSON has none."""
    return attrs.asdict(batch) | {"rates": [rate if math.isfinite(rate) else None for rate in batch.rates]}


def _all(plugins: Plugins, conf: Mapping[str, str], seed: int, *, as_json: bool) -> None:
    reports: dict[str, list[WorkloadReport]] = {}
    left_out = []
    for name in plugins.specs("rate_estimators"):
        try:
            maker = _maker(name, plugins, conf)
            reports[name] = [report(simulate(workload, maker, seed)) for workload in WORKLOADS.values()]
        except PenstockError as error:
            left_out.append(f"left out: {error}")
    rows = [(workload, name, reports[name][number]) for number, workload in enumerate(WORKLOADS) for name in reports]
    if as_json:
        print_json([_measured(*row) for row in rows])
        for line in left_out:
            click.echo(line, err=True)
        return
    terminal().print(comparison(rows))
    for name, measured in reports.items():
        if failed := sum(batch.failed for batch in measured):
            click.echo(f"rate estimator {name!r} raised {failed} errors")
    for line in left_out:
        click.echo(line)


# Column → its text.
_MEASURES: dict[str, Callable[[WorkloadReport], str]] = {
    "settling": lambda measured: "never" if measured.settling is None else str(measured.settling),
    "overshoot": lambda measured: f"{measured.overshoot:.2f}",
    "queue": lambda measured: f"{measured.queue:.1f}",
    "used": lambda measured: f"{measured.used:.0%}",
    "in time": lambda measured: f"{measured.in_time:.0%}",
    "nearly": lambda measured: f"{measured.nearly_in_time:.0%}",
    "oscillation": lambda measured: f"{measured.oscillation:.1%}",
    "stable": lambda measured: "yes" if measured.stable else "no",
}


def comparison(rows: Sequence[tuple[str, str, WorkloadReport]]) -> RenderableType:
    """A table with a row for each workload and estimator."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("workload", no_wrap=True)
    table.add_column("estimator", no_wrap=True)
    for name in _MEASURES:
        table.add_column(name, justify="right", no_wrap=True)
    for number, (workload, estimator, measured) in enumerate(rows):
        first = number == 0 or rows[number - 1][0] != workload
        cells = [Text(write(measured)) for write in _MEASURES.values()]
        table.add_row(workload if first else "", Text(estimator), *cells, style="" if measured.stable else "yellow")
    return Group(
        table,
        Text('\nsettling in batches; overshoot and queue in batch intervals; page "Rate control" of the documentation'),
    )


def picture(run: WorkloadRun, title: str) -> RenderableType:
    """A run as charts, with its measures as sentences."""
    interval = run.workload.interval_ms
    attainable = max(batch.attainable for batch in run.batches) * 1000 / interval
    parts: list[RenderableType] = [Text(title, "bold")]
    for stream in range(len(run.workload.sources)):
        limits = [min(batch.rates[stream], 2 * attainable) for batch in run.batches]
        label = "limit" if len(run.workload.sources) == 1 else f"limit of stream {stream}"
        parts += [
            Text(f"\n{label}, records/s (workload capacity {attainable:,.6g})", "dim"),
            *_chart(limits, fmean),
        ]
    processing = [batch.processing_ms / interval for batch in run.batches]
    parts += [Text("\nprocessing delay, batch intervals", "dim"), *_chart(processing, max, bound=1.0)]
    waiting = [batch.scheduling_ms / interval for batch in run.batches]
    parts += [Text("\nscheduling delay, batch intervals", "dim"), *_chart(waiting, max)]
    return Group(*parts, Text(), *map(Text, _sentences(run)))


def _sentences(run: WorkloadRun) -> list[str]:
    measured = report(run)
    settled = "never settled" if measured.settling is None else f"settled after {measured.settling} batches"
    refused = f", {measured.refused} invalid estimates" if measured.refused else ""
    failed = f", {measured.failed} errors" if measured.failed else ""
    longest = (
        f"longest batch {measured.overshoot + 1:.2f} intervals"
        if measured.overshoot
        else "no batch longer than the interval"
    )
    return [
        f"{len(run.batches)} batches every {run.workload.interval_ms:,} ms: {settled}, "
        f"{'stable' if measured.stable else 'unstable'}{refused}{failed}",
        f"{longest}, longest wait {measured.queue:.2f}; final rate changes by {measured.oscillation:.1%} per batch",
        f"{measured.used:.0%} of what was attainable: {measured.in_time:.0%} before the next batch was due, "
        f"{measured.nearly_in_time:.0%} within two intervals",
        *([f"last decision: {run.reasons[-1]}"] if run.reasons and run.reasons[-1] else []),
    ]


def _chart(values: Sequence[float], join: Callable[[Sequence[float]], float], bound: float = math.inf) -> list[Text]:
    """Values as columns of block characters, yellow above the bound; several values share a column if necessary."""
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
