"""Draws the history of a simulation: which process lived when, its outputs, warnings and errors, and the faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from attrs import define, field, frozen

if TYPE_CHECKING:
    from penstock_testing.simulation.simulation import SimulationOutcome

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 1120, 170, 20, 22, 56
_LINE = re.compile(r"\s*([\d.]+) ms \| (.*?) \| .*? \| (\S+).*")
_COLOURS = {"output": "#1f6feb", "warning": "#d98200", "error": "#c62828", "VIOLATED:": "#c62828"}
_LIFE, _FAULT = "#d7e3f4", "#f3c1c1"
# Processes that are no part of the program.
_AROUND = {"", "simulation", "faults", "cluster manager"}


@frozen
class _Mark:
    at_s: float
    word: str
    line: str


@define
class _Lane:
    name: str
    first_s: float
    last_s: float = 0.0
    marks: list[_Mark] = field(factory=list)


def draw_history(outcome: SimulationOutcome) -> str:
    """Draw the history of a simulation as SVG.

    The first row shows the faults. Each process has a row, in the order of their starts, with a bar from its first line
    of the history to its last one. Blue marks are outputs, orange ones warnings, red ones errors and broken guarantees;
    pointing at a mark shows its line.
    """
    lanes = _lanes(outcome.trace)
    height = _TOP + _ROW * (len(lanes) + 2) + 24
    title = f"Seed {outcome.seed}: {len(outcome.violations) or 'no'} broken guarantees"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_axis(outcome.virtual_s, height - 20),
        *_faults(outcome),
        *(line for number, lane in enumerate(lanes) for line in _row(lane, number + 2, outcome.virtual_s)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _lanes(trace: tuple[str, ...]) -> list[_Lane]:
    lanes = dict[str, _Lane]()
    for line in trace:
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        at_s, process, word = float(found[1]) / 1000, found[2], found[3]
        if process in _AROUND and word != "VIOLATED:":
            continue
        lane = lanes.setdefault(process, _Lane(process, at_s))
        lane.last_s = at_s
        if word in _COLOURS:
            lane.marks.append(_Mark(at_s, word, line.strip()))
    return list(lanes.values())


def _faults(outcome: SimulationOutcome) -> Iterator[str]:
    yield f'<text x="12" y="{_TOP + 15}">faults</text>'
    for number, fault in enumerate(outcome.planned):
        left, right = _x(fault.at_s, outcome.virtual_s), _x(fault.at_s + fault.lasts_s, outcome.virtual_s)
        # Names of neighbours are on two lines.
        y = _TOP + _ROW * (number % 2)
        width = max(right - left, 2)
        yield f'<rect x="{left:.1f}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}" fill="{_FAULT}"/>'
        yield f'<text x="{left + 3:.1f}" y="{y + 15}" font-size="11">{escape(fault.kind)}</text>'


def _row(lane: _Lane, number: int, virtual_s: float) -> Iterator[str]:
    y, left, right = _TOP + _ROW * number, _x(lane.first_s, virtual_s), _x(lane.last_s, virtual_s)
    yield f'<text x="12" y="{y + 15}">{escape(lane.name or "simulation")}</text>'
    yield f'<rect x="{left:.1f}" y="{y + 4}" width="{max(right - left, 1):.1f}" height="{_ROW - 8}" fill="{_LIFE}"/>'
    for mark in lane.marks:
        x = _x(mark.at_s, virtual_s)
        yield (
            f'<line x1="{x:.1f}" y1="{y + 4}" x2="{x:.1f}" y2="{y + _ROW - 4}" stroke="{_COLOURS[mark.word]}" '
            f'stroke-width="2"><title>{escape(mark.line)}</title></line>'
        )


def _axis(virtual_s: float, y: int) -> Iterator[str]:
    step_s = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if virtual_s / step <= 12 or step == 1000)
    for second in range(0, int(virtual_s) + 1, step_s):
        x = _x(second, virtual_s)
        yield f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{y - 12}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{y + 6}" text-anchor="middle" fill="#555">{second} s</text>'


def _x(at_s: float, virtual_s: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at_s / max(virtual_s, 1e-9)
