"""Writes what was measured: a table for the terminal and a page with tables, goals and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import plots
from benchmarks.comparison import Cell, Outcome, is_met, ratios
from benchmarks.engines import ENGINES, OURS
from benchmarks.metrics import METRICS
from benchmarks.rows import Goal, Row

_INTRO = """# Benchmarks

Penstock beside its peers. In each row all engines process the same data, one after the other, each in processes of its
own; each round begins with another engine. A figure is the median of the rounds. A ratio is the median of the ratios of
the rounds, with the least and the largest in brackets: ratios of one run compare, figures of two runs do not. A
program's answer is compared with that of plain Python on the same data, and only right answers have figures. CPU and
memory are those of the driver, the JVM and the Python workers together; memory is resident, without mapped files. The
lines come from a thread of the program that runs the comparison, on the same processors.

`make bench` writes this page; it takes hours on an idle machine. `make bench ARGS=--list` shows the rows and engines,
`make bench ARGS="wordcount --rounds 5"` runs one row, `make bench ARGS=--quick` tries everything at small sizes."""

_QUICK = """
**These figures come from a run with `--quick`: its sizes are so small that they say nothing about speed.**"""


def table(row: Row, outcome: Outcome) -> str:
    """The table of a row in Markdown, with what has no figures below it."""
    ours = [name for name in OURS if any(cell.engine == name and cell.medians for cell in outcome.cells)]
    metrics = [name for name in row.metrics if any(name in cell.medians for cell in outcome.cells)]
    head = [*([row.axis] if row.axis else []), "engine"]
    head += [f"{METRICS[name].title}, {METRICS[name].unit}" for name in metrics]
    head += [f"{ENGINES[name].title} / this" for name in ours]
    lines = [
        _line(head),
        _line(["---" if column < len(head) - len(metrics) - len(ours) else "---:" for column in range(len(head))]),
    ]
    for cell in outcome.cells:
        if not cell.medians:
            continue
        figures = [_number(cell.medians[name]) if name in cell.medians else "-" for name in metrics]
        against = [_ratio(outcome, name, cell, row.metrics[0]) for name in ours]
        lines.append(_line([*([f"{cell.x:,g}"] if row.axis else []), ENGINES[cell.engine].title, *figures, *against]))
    if not any(cell.medians for cell in outcome.cells):
        lines = []
    return "\n".join([*lines, *_without_figures(row, outcome)])


def _without_figures(row: Row, outcome: Outcome) -> list[str]:
    reasons: dict[tuple[str, str], list[float]] = {}
    for cell in outcome.cells:
        if cell.reason:
            prefix = "failed: " if cell.is_wrong else "not available: "
            reasons.setdefault((cell.engine, prefix + cell.reason), []).append(cell.x)
    notes = []
    for (engine, reason), points in reasons.items():
        where = f" at {', '.join(f'{x:,g}' for x in points)}" if row.axis else ""
        notes.append(f"- {ENGINES[engine].title}{where}: {reason}.")
    notes += [f"- {ENGINES[engine].title} is left out: {reason}." for engine, reason in row.left_out.items()]
    return ["", *notes] if notes else []


def goals(rows: Mapping[str, Row], outcomes: Sequence[Outcome]) -> str:
    """The table of all goals whose rows were run."""
    lines = [_line(["row", "goal", "met"]), _line(["---"] * 3)]
    for outcome in outcomes:
        row = rows[outcome.row]
        for goal in row.goals:
            met = is_met(goal, outcome, row)
            said = "not measured" if met is None else "yes" if met else "**no**"
            lines.append(_line([f"[{row.title}](#{_anchor(row.title)})", _wording(goal, row), said]))
    return "\n".join(lines) if len(lines) > 2 else "No row with a goal was run."


def write_page(path: Path, rows: Mapping[str, Row], outcomes: Sequence[Outcome]) -> Path:
    """Write the page, and its plots into a folder beside it that has the page's name.

    Args:
        path: of the page.
        rows: all rows by name, which give the order.
        outcomes: of those that were run.

    Returns:
        The path.
    """
    known = sorted((each for each in outcomes if each.row in rows), key=lambda each: list(rows).index(each.row))
    folder = path.parent / path.stem
    parts = [_INTRO]
    if any(each.is_quick for each in known):
        parts.append(_QUICK)
    parts += ["\n## Machine\n", _machines(known), "\n## Goals\n", goals(rows, known)]
    for outcome in known:
        row = rows[outcome.row]
        parts += [f"\n## {row.title}\n", row.summary, "", table(row, outcome)]
        if plot := plots.draw(row, outcome, folder):
            parts.append(f"\n![{row.title}]({folder.name}/{plot.name})")
    if missing := plots.reason_not_available():
        parts.append(f"\nThere are no plots: {missing}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return path


def _machines(outcomes: Sequence[Outcome]) -> str:
    """What the rows ran on: the facts of the newest, and what each row's own state was."""
    if not outcomes:
        return "No row was run."
    newest = max(outcomes, key=lambda outcome: outcome.date)
    lines = [_line(["what", "which"]), _line(["---"] * 2)]
    lines += [_line([name, value]) for name, value in newest.machine.items()]
    lines += ["", _line(["row", "ended (UTC)", "rounds", "seed", "state of the machine"]), _line(["---"] * 5)]
    for outcome in outcomes:
        rounds = max((len(cell.rounds) for cell in outcome.cells), default=0)
        note = "" if outcome.machine == newest.machine else "; another machine or other versions"
        lines.append(_line([outcome.row, outcome.date, str(rounds), str(outcome.seed), outcome.state + note]))
    return "\n".join(lines)


def _ratio(outcome: Outcome, ours: str, cell: Cell, metric: str) -> str:
    own = outcome.cell(ours, cell.x)
    spread = ratios(own, cell, metric) if own and cell.engine != ours else None
    if spread is None:
        return "-"
    return f"{_number(spread.median)} x ({_number(spread.least)} to {_number(spread.most)})"


def _wording(goal: Goal, row: Row) -> str:
    metric = METRICS[goal.metric]
    sign = "≥" if goal.relation == ">=" else "≤"
    limit = [f"{goal.factor:g} x {ENGINES[goal.peer].title}"] if goal.peer else []
    limit += [f"{_number(goal.offset)} {metric.unit}"] if goal.offset else []
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
