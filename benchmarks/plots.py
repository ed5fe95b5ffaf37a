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
#: One colour for each engine in all plots: Penstock's are green and blue, those of the limits grey.
_COLOURS = {
    "penstock": "#00796b",
    "penstock-dataframe": "#1565c0",
    "penstock-arrow": "#00838f",
    "structured-penstock": "#4fc3f7",
    "structured-arrow": "#9575cd",
    "pyspark": "#e65100",
    "pyspark-unix": "#ffb74d",
    "structured-python": "#c62828",
    "structured-socket": "#f48fb1",
    "bytewax": "#6a1b9a",
    "bare-python": "#424242",
    "bare-rows": "#616161",
    "bare-spark": "#757575",
    "bare-dataframe": "#9e9e9e",
    "bare-structured": "#bdbdbd",
    "bare-kernels": "#cfcfcf",
}


def reason_not_available() -> str:
    """Why there are no plots; empty if there are."""
    return "" if importlib.util.find_spec("matplotlib") else "the package matplotlib is not installed"


def draw(row: Row, outcomes: Sequence[Outcome], folder: Path) -> Path | None:
    """Draw the row's first metric into a folder: bars for one point, lines for several.

    Returns:
        The file; ``None`` if there is nothing to draw or nothing to draw with.
    """
    metric = row.metrics[0]
    cells = [cell for outcome in outcomes for cell in outcome.cells if metric in cell.medians]
    if not cells or reason_not_available():
        return None
    has_lines = len({cell.x for cell in cells}) > 1 or metric == "drift"
    figure, axes = new_figure(_HEIGHT if has_lines else 1.2 + _BAR * len(cells))
    if any(cell.trend for cell in cells) and metric == "drift":
        _draw_trends(axes, cells)
    elif has_lines:
        _draw_lines(axes, row, cells, metric)
    else:
        _draw_bars(axes, cells, metric)
    size = f", {row.axis}: {cells[0].x:,g}" if row.axis and not has_lines else ""
    axes.set_title(row.title.replace("`", "") + size)
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
        middle, rounds = cell.medians[metric], _rounds(cell, metric)
        spread = [[middle - min(rounds)], [max(rounds) - middle]] if len(rounds) > 1 else None
        bars = axes.barh(position, middle, xerr=spread, color=_COLOURS[cell.engine])
        axes.bar_label(bars, fmt="{:,.4g}" if middle < 1000 else "{:,.0f}", padding=3, fontsize=8)
    axes.set_yticks(range(len(cells)), [_title(cell.engine) for cell in reversed(cells)])
    axes.margins(x=0.15)
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.set_xlabel(f"{METRICS[metric].title}, {METRICS[metric].unit}")


def _draw_lines(axes: Any, row: Row, cells: Sequence[Cell], metric: str) -> None:
    for name in dict.fromkeys(cell.engine for cell in cells):
        own = [cell for cell in cells if cell.engine == name]
        points, middles = [cell.x for cell in own], [cell.medians[metric] for cell in own]
        least, most = ([choose(_rounds(cell, metric)) for cell in own] for choose in (min, max))
        style = "o-" if ENGINES[name].is_peer or name in OURS else "o--"
        axes.plot(points, middles, style, color=_COLOURS[name], label=_title(name), markersize=4)
        axes.fill_between(points, least, most, color=_COLOURS[name], alpha=0.15)
    axes.set_xscale("log")
    sizes = sorted({cell.x for cell in cells})
    axes.set_xticks(sizes, [f"{size:,g}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.set_xlabel(row.axis)
    axes.set_ylabel(f"{METRICS[metric].title}, {METRICS[metric].unit}")
    axes.legend(fontsize=8)


def _rounds(cell: Cell, metric: str) -> list[float]:
    return [figures[metric] for figures in cell.rounds if metric in figures]


def _title(engine: str) -> str:
    return ENGINES[engine].title.replace("`", "")


def _draw_trends(axes: Any, cells: Sequence[Cell]) -> None:
    for cell in cells:
        numbers, delays = zip(*cell.trend, strict=True)
        axes.plot(numbers, delays, color=_COLOURS[cell.engine], label=_title(cell.engine))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batches run")
    axes.set_ylabel("processing p50, ms")
    axes.legend(fontsize=8)
