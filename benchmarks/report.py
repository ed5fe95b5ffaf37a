"""Writes what was measured: a table for the terminal and a page with tables, goals and plots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import long_run, plots
from benchmarks.comparison import Cell, Judgement, Outcome, Spread, judge, ratios
from benchmarks.engines import ENGINES, OURS
from benchmarks.long_run import Run
from benchmarks.metrics import METRICS
from benchmarks.processes import ROLES
from benchmarks.rows import Goal, Point, Row

_INTRO = """# Benchmarks

On this page you find how fast Penstock is, compared with its peers and with *limits*: the same work without a streaming
engine. You can repeat every measurement with `make bench`.

- In a **round** every engine of a row runs once, on the same data. A figure is the median of the rounds.
- A **ratio** divides Penstock's figure by that of the line's engine, round by round. It is the median, with the
  extremes in brackets. Above 1, Penstock has the higher throughput; below 1, it needs less time or memory. In a table
  with a column for each size, the ratio follows the figure.
- Every answer is compared with that of plain Python. Only right answers have figures.
- A figure with a commit was measured on an idle machine. [The last table](#machine) shows how busy the machine was for
  other figures.
- CPU and memory are those of driver, JVM and Python workers together; memory is resident, without mapped files.
- All engines have one slot per core for their batches. Receivers have slots of their own.
- The limits:
{limits}

```sh
make bench ARGS="--list"
make bench ARGS="headlines"
make bench ARGS="latency --point 0.1 --engine penstock --engine pyspark"
make bench ARGS="wordcount --quick"
```

The first command lists the rows and engines. `headlines` measures the README's figures in half an hour; all rows take
hours. A quick run shows only that everything works. Figures go to `build/benchmarks`. With
`--results docs/benchmarks` they replace those of this page. The files there also have metrics, rounds and seeds that
the tables leave out."""

_QUICK = """
**These figures come from a run with `--quick`: its sizes are so small that they say nothing about speed.**"""

_GOALS = """
Each goal names the strongest form of its peer. The last column names a limit that is faster than Penstock, and says how
many times as fast. The last lines have figures of other pages.
"""

_NOT_RUN = """\
These rows have no line for the engine. A reason in brackets says why the engine cannot run the row.
"""

#: Goals whose figures other pages have: the page, the goal, what was measured, whether it is met, and the limit.
ELSEWHERE = (
    (
        "[Rate estimators](rate-control.md#summary)",
        "`model` better than `pid` on all 15 simulated workloads",
        "batches until settled: on 13; overshoot: on 15; longest wait: on 14; used in time: on 15",
        "**no**",
        "on one workload `pid` settles at once, on one no estimator settles",
    ),
    (
        "[Rate estimators, live](rate-control.md#live)",
        "`model`: used capacity ≥ 85 %",
        "90, 95 and 95 %",
        "yes",
        "-",
    ),
    (
        "[ReceiverTracker](scale.md)",
        "1,000 receivers with 5 blocks/s each on half a core, work per batch p99 < 100 ms",
        "4,800 of 5,000 blocks/s on 1.00 cores, p99 6,190 ms",
        "**no**",
        "-",
    ),
)

# The fact of a measurement that differs from row to row.
_COMMIT = "commit"

# Number of Penstock's engines that a table of the page compares with all others.
_COMPARED = 2

# Batches of the long run that is a goal.
_LONG_RUN_BATCHES = 100_000


def table(row: Row, outcomes: Sequence[Outcome]) -> str:
    """The table of a row in Markdown, with what has no figures below it.

    Args:
        row: which was run.
        outcomes: of its points.
    """
    notes = [*_without_figures(row, outcomes), *_left_out(row), *_not_run(row, outcomes)]
    return "\n".join([*_by_size(row, outcomes, OURS), *(["", *notes] if notes else [])])


def _of_page(row: Row, outcomes: Sequence[Outcome]) -> str:
    """The table of a row on the page: a column for each size, unless goals need several metrics."""
    if not row.axis:
        ran = [name for name in OURS if any(cell.medians for o in outcomes if (cell := o.cell(name)))]
        lines = _by_size(row, outcomes, ran[:_COMPARED])
    elif len({goal.metric for goal in row.goals}) < 2:
        lines = _by_engine(row, outcomes)
    else:
        lines = _by_size(row, outcomes, OURS[:1])
    notes = list(_without_figures(row, outcomes))
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _by_engine(row: Row, outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each engine, with the first metric at each size, and the ratio to the first of Penstock's engines."""
    metric = row.metrics[0]
    lines = [_line([f"{METRICS[metric].title}, {METRICS[metric].unit}; {row.axis}:", *(f"{o.x:,g}" for o in outcomes)])]
    lines.append(_line(["---", *["---:"] * len(outcomes)]))
    for name in ENGINES:
        cells = [outcome.cell(name) for outcome in outcomes]
        if not any(cell and metric in cell.medians for cell in cells):
            continue
        figures = list[str]()
        for outcome, cell in zip(outcomes, cells, strict=True):
            ratio = _ratio(outcome, OURS[0], cell, metric) if cell and metric in cell.medians else None
            figure = _number(cell.medians[metric]) if cell and metric in cell.medians else "-"
            figures.append(f"{figure} ({_in_table(ratio)})" if ratio else figure)
        lines.append(_line([ENGINES[name].title, *figures]))
    return lines


def _by_size(row: Row, outcomes: Sequence[Outcome], compared: Sequence[str]) -> list[str]:
    """A line for each engine at each size, with all metrics, and the ratios of the engines that are compared."""
    cells = [(outcome, cell) for outcome in outcomes for cell in outcome.cells]
    ours = [name for name in compared if any(cell.engine == name and cell.medians for _, cell in cells)]
    metrics = [name for name in row.metrics if any(name in cell.medians for _, cell in cells)]
    head = [*([row.axis] if row.axis else []), "engine"]
    num_texts = len(head)
    head += [f"{METRICS[name].title}, {METRICS[name].unit}" for name in metrics]
    head += [f"{ENGINES[name].title} / this" for name in ours]
    lines = [_line(head), _line(["---" if column < num_texts else "---:" for column in range(len(head))])]
    for outcome, cell in cells:
        if not cell.medians:
            continue
        figures = [_number(cell.medians[name]) if name in cell.medians else "-" for name in metrics]
        against = [_in_table(_ratio(outcome, name, cell, row.metrics[0])) for name in ours]
        lines.append(_line([*([f"{cell.x:,g}"] if row.axis else []), ENGINES[cell.engine].title, *figures, *against]))
    return lines if any(cell.medians for _, cell in cells) else []


def _without_figures(row: Row, outcomes: Sequence[Outcome]) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        for cell in outcome.cells:
            if cell.reason:
                prefix = "failed: " if cell.is_wrong else "not available: "
                reasons.setdefault((cell.engine, prefix + cell.reason), []).append(cell.x)
    for (engine, reason), points in reasons.items():
        yield f"- {ENGINES[engine].title}{_at(row, points)}: {reason}."


def _left_out(row: Row) -> Iterator[str]:
    for engine, reason in row.left_out.items():
        yield f"- {ENGINES[engine].title} is left out: {reason}."


def _not_run(row: Row, outcomes: Sequence[Outcome]) -> Iterator[str]:
    ran = {(cell.engine, outcome.x) for outcome in outcomes for cell in outcome.cells}
    engines: dict[tuple[float, ...], list[str]] = {}
    for name in row.engines:
        if missing := tuple(point.x for point in row.points if (name, point.x) not in ran):
            engines.setdefault(missing, []).append(ENGINES[name].title)
    for points, titles in engines.items():
        yield f"- Not run{_at(row, points) if len(points) < len(row.points) else ''}: {'; '.join(titles)}."


def _absences(rows: Mapping[str, Row], outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Why rows of the page have no line for an engine, a line for each engine: it cannot run them, or was not run."""
    of_engine: dict[str, dict[str, list[str]]] = {}
    for row in rows.values():
        if ran := {cell.engine for outcome in outcomes if outcome.row == row.name for cell in outcome.cells}:
            for name, reason in (dict.fromkeys(row.engines, "") | dict(row.left_out)).items():
                if name not in ran:
                    of_engine.setdefault(name, {}).setdefault(reason, []).append(row.name)
    for name in ENGINES:
        if name in of_engine:
            parts = [
                f"{', '.join(of_rows)} ({reason})" if reason else ", ".join(of_rows)
                for reason, of_rows in of_engine[name].items()
            ]
            yield f"- {ENGINES[name].title}: {'; '.join(parts)}."


def _at(row: Row, points: Sequence[float]) -> str:
    return f" at {', '.join(f'{x:,g}' for x in points)}" if row.axis else ""


def goals(rows: Mapping[str, Row], outcomes: Sequence[Outcome], runs: Sequence[Run] = ()) -> str:
    """The table of all goals, and a list of those that were not measured.

    Args:
        rows: all rows by name.
        outcomes: of their points, each at most once.
        runs: the long runs.
    """
    lines = [_line(["row", "goal", "measured", "rounds", "met", "limit"]), _line(["---"] * 6)]
    ran = {outcome.row for outcome in outcomes}
    not_measured = list[str]()
    for row in rows.values():
        name = f"[{row.title}](#{_anchor(row.title)})" if row.name in ran else row.title
        judgements = [(goal, judge(goal, row, outcomes)) for goal in row.goals]
        for goal, judgement in judgements:
            if judgement.is_met is not None:
                cells = [
                    _measured(goal, judgement),
                    str(judgement.rounds),
                    _verdict(judgement),
                    _limit(goal, judgement),
                ]
                lines.append(_line([name, _wording(goal, row), *cells]))
        if missing := [_wording(goal, row) for goal, judgement in judgements if judgement.is_met is None]:
            not_measured.append(f"- {name}. {'; '.join(missing)}.")
    lines.append(_long_run_goal(runs))
    lines += [_line([where, goal, measured, "-", met, limit]) for where, goal, measured, met, limit in ELSEWHERE]
    if not_measured:
        lines += ["\nThese goals were not measured:\n", *not_measured]
    return "\n".join(lines)


def _long_run_goal(runs: Sequence[Run]) -> str:
    goal = f"Penstock: memory flat over {_LONG_RUN_BATCHES:,} batches"
    for run in runs:
        if run.kind == "manual" and run.samples[-1].batches >= _LONG_RUN_BATCHES:
            growth = [f"{role} {long_run.growth_mb(run.samples, role):+.1f} MB" for role in ROLES]
            return _line(
                ["[Long runs](#long-runs)", goal, ", ".join(growth), "1", "yes" if run.is_flat else "**no**", "-"]
            )
    return _line(["Long runs", goal, "-", "-", "not measured", "-"])


def _measured(goal: Goal, judgement: Judgement) -> str:
    if judgement.ratio:
        return _spread(judgement.ratio)
    unit = METRICS[goal.metric].unit
    return f"{_number(judgement.figure)} {unit}" + (f"; goal {_number(judgement.limit)} {unit}" if goal.peer else "")


def _verdict(judgement: Judgement) -> str:
    return "yes" if judgement.is_met else "**no**"


def _limit(goal: Goal, judgement: Judgement) -> str:
    # A limit that is slower than Penstock limits nothing.
    if not judgement.slower or judgement.slower.median <= 1:
        return "-"
    return f"{_bare(goal.limit)}: {_spread(judgement.slower)}"


def write_page(path: Path, rows: Mapping[str, Row], outcomes: Sequence[Outcome], long_runs: Path | None = None) -> Path:
    """Write the page, and its plots and figures into a folder beside it that has the page's name.

    Args:
        path: of the page.
        rows: all rows by name, which give the order.
        outcomes: of what was run.
        long_runs: folder of the long runs.

    Returns:
        The path.
    """
    reported = [outcome for row in rows.values() for point in row.points for outcome in _of_point(outcomes, row, point)]
    folder = path.parent / path.stem
    limits = "\n".join(f"    - {_bare(engine.name)}: {engine.work}." for engine in ENGINES.values() if engine.work)
    parts = [_INTRO.format(limits=limits)]
    if any(outcome.is_quick for outcome in reported):
        parts.append(_QUICK)
    runs = [long_run.Run.load(file) for file in sorted(long_runs.glob("*.json"), reverse=True)] if long_runs else []
    parts += ["\n## Goals", _GOALS, goals(rows, reported, runs)]
    for row in rows.values():
        if of_row := [outcome for outcome in reported if outcome.row == row.name]:
            parts += [f"\n## {row.title}\n", f"{row.summary} {_rounds(row, of_row)}", "", _of_page(row, of_row)]
            if plot := plots.draw(row, of_row, folder):
                parts.append(f"\n![{row.title.replace('`', '')}]({folder.name}/{plot.name})")
    parts += _long_runs(runs, folder)
    absences = list(_absences(rows, reported))
    missing = [row for row in rows.values() if row.name not in {outcome.row for outcome in reported}]
    if missing or absences:
        parts += ["\n## Not run\n", _NOT_RUN, *absences]
        parts += [f"- {row.title}: `make bench ARGS={row.name}`" for row in missing]
    parts += ["\n## Machine\n", _machines(reported)]
    if reason := plots.reason_not_available():
        parts.append(f"\nThere are no plots: {reason}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    for outcome in reported:
        outcome.save(folder)
    for run in runs:
        run.save(folder / long_run.FOLDER)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return path


def _of_point(outcomes: Sequence[Outcome], row: Row, point: Point) -> list[Outcome]:
    return [outcome for outcome in outcomes if (outcome.row, outcome.x) == (row.name, point.x)]


def _rounds(row: Row, outcomes: Sequence[Outcome]) -> str:
    points: dict[int, list[float]] = {}
    for outcome in outcomes:
        points.setdefault(outcome.rounds, []).append(outcome.x)
    said = [
        f"{rounds} round{'s' if rounds > 1 else ''}{_at(row, xs) if len(points) > 1 else ''}"
        for rounds, xs in points.items()
    ]
    return f"**{'; '.join(said)}**" + (", without a spread." if 1 in points else ".")


def _long_runs(runs: Sequence[Run], plots_folder: Path) -> Iterator[str]:
    if runs:
        yield "\n## Long runs\n"
        yield (
            "A receiver stores 1,000 lines/s, and each batch reduces them by key. Growth is that of the straight line "
            "through all\nsamples of the last two thirds. `python -m benchmarks.long_run` repeats the first run, with "
            "`--minutes 30` the second."
        )
    for run in runs:
        yield f"\n{run.title}\n\n{run.table}"
        if not plots.reason_not_available():
            plot = run.draw(plots_folder / f"long-run-{run.kind}.svg")
            yield f"\n![Memory over the batches of the {run.kind} run]({plots_folder.name}/{plot.name})"


def _machines(outcomes: Sequence[Outcome]) -> str:
    """What the rows ran on: the facts of the newest, and what the state was at each point."""
    if not outcomes:
        return "No row was run."
    newest = max(outcomes, key=lambda outcome: outcome.date)
    lines = [_line(["what", "which"]), _line(["---"] * 2)]
    facts = {name: value for name, value in newest.machine.items() if name != _COMMIT}
    lines += [_line([name, value]) for name, value in facts.items()]
    head = ["row", "ended (UTC)", _COMMIT, "busy before, by size"]
    lines += ["", _line(head), _line(["---"] * len(head))]
    for name in dict.fromkeys(outcome.row for outcome in outcomes):
        of_row = [outcome for outcome in outcomes if outcome.row == name]
        is_same = all(outcome.machine.get(fact, value) == value for outcome in of_row for fact, value in facts.items())
        commits = dict.fromkeys(outcome.machine.get(_COMMIT, "-") for outcome in of_row)
        busy = ", ".join(_busy(outcome.state) for outcome in of_row)
        ended = max(outcome.date for outcome in of_row).partition("+")[0]
        lines.append(_line([name if is_same else f"{name} \\*", ended, ", ".join(commits), busy]))
    if any("\\*" in line for line in lines):
        lines.append("\n\\*: another machine or other versions.")
    return "\n".join(lines)


def _busy(state: str) -> str:
    """The share of the processors that was busy before a run, in percent; the state of a run that does not say so."""
    share = re.search(r"\d+(?= ?%)", state)
    return f"{share[0]}%" if share else state


def _bare(engine: str) -> str:
    """The title of an engine, also of a limit without that word."""
    return ENGINES[engine].title.removeprefix("limit: ")


def _ratio(outcome: Outcome, ours: str, cell: Cell, metric: str) -> Spread | None:
    own = outcome.cell(ours)
    return ratios(own, cell, metric) if own and cell.engine != ours else None


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if spread.num_rounds == 1:
        return f"{_number(spread.median)} x"
    return f"{_number(spread.median)} x ({_number(spread.least)}-{_number(spread.most)})"


def _in_table(spread: Spread | None) -> str:
    return _spread(spread).replace(" x", "")


def _wording(goal: Goal, row: Row) -> str:
    metric = METRICS[goal.metric]
    sign = "≥" if goal.relation == ">=" else "≤"
    factor = "" if goal.factor == 1 else f"{goal.factor:g} x "
    limit = [f"{factor}{_bare(goal.peer)}"] if goal.peer else []
    limit += [f"{goal.offset:,.10g} {metric.unit}"] if goal.offset else []
    where = f" at {row.axis.partition(',')[0]} {goal.x:g}" if goal.x is not None else ""
    return f"{ENGINES[goal.engine].title}: {metric.title}{where} {sign} {' + '.join(limit)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _anchor(title: str) -> str:
    """As the usual renderers of Markdown make it."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")
