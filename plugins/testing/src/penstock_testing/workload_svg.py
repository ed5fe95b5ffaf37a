"""Draws a simulated run as SVG: rate limit, processing time and wait of each batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from penstock_testing.workload_run import WorkloadRun

_WIDTH, _PANEL, _GAP, _LEFT, _TOP = 760, 130, 44, 64, 48
_COLOURS = ("#1f6feb", "#bf5700", "#2e7d32", "#7b3fa0")
# Limits above this multiple of the attainable rate are cut off.
_FITTING = 3.0


def draw(run: WorkloadRun, title: str) -> str:
    """Draw a run.

    Args:
        run: the simulated run.
        title: heading.
    """
    interval, batches = run.workload.interval_ms, run.batches
    attainable = [batch.attainable * 1000 / interval for batch in batches]
    limits = [[batch.rates[stream] for batch in batches] for stream in range(len(run.workload.sources))]
    fitting = [rate for rates in limits for rate in rates if rate <= _FITTING * max(attainable)]
    panels = [
        _panel(0, _limits_label(len(limits)), limits, attainable, fitting),
        _panel(
            1, "processing, intervals", [[batch.processing_ms / interval for batch in batches]], [1.0] * len(batches)
        ),
        _panel(2, "waiting, intervals", [[batch.scheduling_ms / interval for batch in batches]], []),
    ]
    bottom = _TOP + 3 * _PANEL + 2 * _GAP
    height = bottom + _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *(line for panel in panels for line in panel),
        *_batch_numbers(len(batches), bottom + 18),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _limits_label(streams: int) -> str:
    """As markup: several streams are named in the colours of their curves."""
    if streams == 1:
        return "limit, records/s (dashed: attainable)"
    names = ", ".join(
        f'<tspan fill="{colour}">stream {stream}</tspan>'
        for stream, colour in zip(range(streams), _COLOURS * streams, strict=False)
    )
    return f"limit of {names}, records/s (dashed: attainable, all streams)"


def _panel(
    number: int,
    label: str,
    curves: Sequence[Sequence[float]],
    dashed: Sequence[float],
    fitting: Sequence[float] | None = None,
) -> Iterator[str]:
    bottom = _TOP + number * (_PANEL + _GAP) + _PANEL
    plotted = [value for values in curves for value in values] if fitting is None else fitting
    top = max((value for value in (*plotted, *dashed) if math.isfinite(value)), default=1.0) * 1.1 or 1.0
    yield f'<text x="{_LEFT}" y="{bottom - _PANEL - 6}">{label}</text>'
    for value in _ticks(top):
        y = bottom - _PANEL * value / top
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 12}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{_number(value)}</text>'
    if dashed:
        yield _curve(dashed, top, bottom, '#888" stroke-dasharray="5 4')
    for values, colour in zip(curves, _COLOURS * len(curves), strict=False):
        yield _curve(values, top, bottom, colour)


def _batch_numbers(batches: int, y: float) -> Iterator[str]:
    yield f'<text x="{_LEFT - 12}" y="{y}" text-anchor="end" fill="#555">batch</text>'
    for number in filter(float.is_integer, _ticks(batches - 1, 10)):
        x = _LEFT + number * _step(batches)
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="#555">{_number(number)}</text>'


def _ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from zero to ``top``: multiples of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(top)) if top > 0 else 1.0
    step = next(step for part in (0.1, 0.2, 0.5, 1) if (step := part * power) * most >= top or part == 1)
    return [number * step for number in range(math.floor(top / step * (1 + 1e-9)) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _curve(values: Sequence[float], top: float, bottom: float, colour: str) -> str:
    """A path; values that do not fit run along the top."""
    step = _step(len(values))
    points = " L".join(
        f"{_LEFT + number * step:.1f},{bottom - _PANEL * min(value / top, 1.0):.1f}"
        for number, value in enumerate(values)
    )
    return f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _step(batches: int) -> float:
    """Distance between two batches."""
    return (_WIDTH - 12 - _LEFT) / max(batches - 1, 1)
