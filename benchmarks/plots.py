"""Draws the plots of the page with matplotlib, if that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison import Cell, Outcome
from benchmarks.engines import ENGINES, OURS
from benchmarks.metrics import METRICS
from benchmarks.rows import Row

_WIDTH, _HEIGHT, _BAR = 8.0, 4.0, 0.45
#: One colour for each engine in all plots.
_COLOURS = dict(zip(ENGINES, [f"C{number}" for number in range(10)], strict=False))


def reason_not_available() -> str:
    """Why there are no plots; empty if there are."""
    return "" if importlib.util.find_spec("matplotlib") else "the package matplotlib is not installed"


def draw(row: Row, outcome: Outcome, folder: Path) -> Path | None:
    """Draw the row's first metric into a folder: bars for one point, lines for several.

    Returns:
        The file; ``None`` if there is nothing to draw or nothing to draw with.
    """
    metric = row.metrics[0]
    cells = [cell for cell in outcome.cells if metric in cell.medians]
    if not cells or reason_not_available():
        return None
    figure, axes = new_figure(_HEIGHT if row.axis else 1.2 + _BAR * len(cells))
    if any(cell.trend for cell in cells) and metric == "drift":
        _draw_trends(axes, cells)
    elif row.axis:
        _draw_lines(axes, row, cells, metric)
    else:
        _draw_bars(axes, cells, metric)
    axes.set_title(row.title.replace("`", ""))
    return save(figure, folder / f"{row.name}.svg")


def new_figure(height: float = _HEIGHT) -> tuple[Any, Any]:
    """A figure with one pair of axes, in the style of all plots. It draws on no screen."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same figures give the same file.
    mpl.rcParams.update({"svg.hashsalt": "penstock", "axes.grid": True, "grid.alpha": 0.3, "font.size": 9})
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def save(figure: Any, path: Path) -> Path:
    """Write a figure as SVG; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _draw_bars(axes: Any, cells: Sequence[Cell], metric: str) -> None:
    for position, cell in enumerate(reversed(cells)):
        middle = cell.medians[metric]
        rounds = [each[metric] for each in cell.rounds if metric in each]
        axes.barh(
            position,
            middle,
            xerr=[[middle - min(rounds)], [max(rounds) - middle]],
            color=_COLOURS[cell.engine],
            alpha=0.9 if cell.engine in OURS else 0.5,
        )
    axes.set_yticks(range(len(cells)), [ENGINES[cell.engine].title.replace("`", "") for cell in reversed(cells)])
    axes.set_xlabel(f"{METRICS[metric].title}, {METRICS[metric].unit}")


def _draw_lines(axes: Any, row: Row, cells: Sequence[Cell], metric: str) -> None:
    for name in dict.fromkeys(cell.engine for cell in cells):
        own = [cell for cell in cells if cell.engine == name]
        points, middles = [cell.x for cell in own], [cell.medians[metric] for cell in own]
        least, most = ([choose(each[metric] for each in cell.rounds) for cell in own] for choose in (min, max))
        axes.plot(points, middles, "o-", color=_COLOURS[name], label=ENGINES[name].title.replace("`", ""))
        axes.fill_between(points, least, most, color=_COLOURS[name], alpha=0.15)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(row.axis)
    axes.set_ylabel(f"{METRICS[metric].title}, {METRICS[metric].unit}")
    axes.legend(fontsize=8)


def _draw_trends(axes: Any, cells: Sequence[Cell]) -> None:
    for cell in cells:
        numbers, delays = zip(*cell.trend, strict=True)
        axes.plot(numbers, delays, color=_COLOURS[cell.engine], label=ENGINES[cell.engine].title.replace("`", ""))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batches run")
    axes.set_ylabel("processing p50, ms")
    axes.legend(fontsize=8)
