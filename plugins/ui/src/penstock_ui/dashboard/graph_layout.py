"""Positions for the picture of the DStream graph: sources at the top, output operations at the bottom.

Streams stand in rows by their longest way from an input; in a row they are ordered by the mean position of their
parents, which keeps most lines from crossing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

BOX_WIDTH, BOX_HEIGHT = 168, 52
_GAP_X, _GAP_Y, _MARGIN = 20, 36, 8


class Node(Protocol):
    """A stream of the graph; ``penstock``'s ``DStreamInfo`` is one."""

    @property
    def number(self) -> int: ...  # noqa: D102
    @property
    def parents(self) -> tuple[int, ...]: ...  # noqa: D102


@frozen
class Box:
    """Where a stream is drawn: its upper left corner."""

    number: int
    x: float
    y: float


@frozen
class Line:
    """A parent and its child, as the path of an SVG."""

    parent: int
    child: int
    path: str


@frozen
class Layout:
    """The picture."""

    width: float
    height: float
    boxes: Mapping[int, Box]
    lines: tuple[Line, ...]


def lay_out(nodes: Sequence[Node]) -> Layout:
    """Lay out a graph.

    Args:
        nodes: parents before their children; unknown parents are ignored.
    """
    parents = _parents(nodes)
    rows = _ordered(_rows(parents), parents)
    widest = max((len(row) for row in rows), default=0)
    width = widest * (BOX_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    boxes: dict[int, Box] = {}
    for depth, row in enumerate(rows):
        taken = len(row) * (BOX_WIDTH + _GAP_X) - _GAP_X
        left = (width - taken) / 2
        for place, number in enumerate(row):
            y = _MARGIN + depth * (BOX_HEIGHT + _GAP_Y)
            boxes[number] = Box(number, left + place * (BOX_WIDTH + _GAP_X), y)
    lines = tuple(
        Line(parent, child, _curve(boxes[parent], boxes[child])) for child, above in parents.items() for parent in above
    )
    height = len(rows) * (BOX_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    return Layout(max(width, 0), max(height, 0), boxes, lines)


def _parents(nodes: Sequence[Node]) -> dict[int, tuple[int, ...]]:
    """Parents by stream, without those that are unknown or come later: a damaged log may describe no graph."""
    parents: dict[int, tuple[int, ...]] = {}
    for node in nodes:
        parents[node.number] = tuple(dict.fromkeys(parent for parent in node.parents if parent in parents))
    return parents


def _rows(parents: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
    depth: dict[int, int] = {}
    for number, above in parents.items():
        depth[number] = 1 + max((depth[parent] for parent in above), default=-1)
    rows: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for number, row in depth.items():
        rows[row].append(number)
    return rows


def _ordered(rows: list[list[int]], parents: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
    place: dict[int, float] = {}
    ordered = []
    for row in rows:
        wanted = {
            number: sum(place[parent] for parent in parents[number]) / max(len(parents[number]), 1) for number in row
        }
        row = sorted(row, key=lambda number: (wanted[number], number))
        for position, number in enumerate(row):
            place[number] = (position + 0.5) / len(row)
        ordered.append(row)
    return ordered


def _curve(parent: Box, child: Box) -> str:
    x1, y1 = parent.x + BOX_WIDTH / 2, parent.y + BOX_HEIGHT
    x2, y2 = child.x + BOX_WIDTH / 2, child.y
    bend = (y2 - y1) / 2
    return f"M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
