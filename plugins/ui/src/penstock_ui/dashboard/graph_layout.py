"""Positions for the picture of the DStream graph, in two forms: boxes in rows, and a list with curves beside it.

Streams created in a loop, such as a thousand receivers that one union reads, are drawn as one box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

from attrs import frozen

from penstock import DStreamInfo

BOX_WIDTH, BOX_HEIGHT = 168, 52
LIST_ROW, LIST_WIDTH = 46, 330
#: Boxes that fit into the width of a page. If a row has more, the list is drawn instead.
WIDEST = 7
_GAP_X, _GAP_Y, _MARGIN = 20, 36, 8
# Up to this many similar streams are drawn individually.
_ALONE = 3
_LANE, _LANES = 9, 7


@frozen
class Group:
    """One or more streams that are drawn as one box.

    Attributes:
        streams: one or more, alike in type, origin and use.
        parents: numbers of the parent groups; a group has the number of its first stream.
    """

    streams: tuple[DStreamInfo, ...]
    parents: tuple[int, ...]

    @property
    def number(self) -> int:
        """The number of its first stream."""
        return self.streams[0].number


@frozen
class Layout:
    """A picture.

    Attributes:
        width: total width.
        height: total height.
        places: upper left corner of each group, by its number.
        lines: an SVG path from each parent to each child.
        columns: groups in the widest row.
    """

    width: float
    height: float
    places: Mapping[int, tuple[float, float]]
    lines: tuple[str, ...]
    columns: int = 1


def grouped(nodes: Sequence[DStreamInfo]) -> list[Group]:
    """Group streams that have the same type, the same call site and the same child groups.

    Args:
        nodes: parents before their children; a parent that is missing or comes later, as in a damaged log, is ignored.

    Returns:
        The groups, parents before their children.
    """
    parents: dict[int, list[int]] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for node in nodes:
        parents[node.number] = [parent for parent in node.parents if parent in parents]
        for parent in parents[node.number]:
            children[parent].append(node.number)
    # A stream and its parent never share a group: they would need the same children, hence an infinite chain.
    kinds: dict[tuple[str, str, frozenset[int]], int] = {}
    kind_of: dict[int, int] = {}
    for node in reversed(nodes):
        key = (node.type, node.call_site, frozenset(kind_of[child] for child in children[node.number]))
        kind_of[node.number] = kinds.setdefault(key, len(kinds))
    members: defaultdict[int, list[DStreamInfo]] = defaultdict(list)
    for node in nodes:
        members[kind_of[node.number]].append(node)
    drawn = [[node] for alike in members.values() if len(alike) <= _ALONE for node in alike]
    drawn += [alike for alike in members.values() if len(alike) > _ALONE]
    group_of = {node.number: alike[0].number for alike in drawn for node in alike}
    above = {
        alike[0].number: tuple(dict.fromkeys(group_of[parent] for node in alike for parent in parents[node.number]))
        for alike in drawn
    }
    streams = {alike[0].number: tuple(alike) for alike in drawn}
    return [Group(streams[number], above[number]) for number in TopologicalSorter(above).static_order()]


def in_rows(groups: Sequence[Group]) -> Layout:
    """Boxes in rows: inputs at the top, output operations at the bottom.

    A group is in the row after its lowest parent. In a row, groups are ordered by the mean position of their parents,
    which keeps most lines from crossing.
    """
    rows = _ordered(groups)
    columns = max(map(len, rows), default=0)
    width = max(columns * (BOX_WIDTH + _GAP_X) - _GAP_X, 0) + 2 * _MARGIN
    places: dict[int, tuple[float, float]] = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (BOX_WIDTH + _GAP_X) + _GAP_X) / 2
        for position, number in enumerate(row):
            places[number] = left + position * (BOX_WIDTH + _GAP_X), _MARGIN + depth * (BOX_HEIGHT + _GAP_Y)
    lines = []
    for group in groups:
        x2, y2 = places[group.number][0] + BOX_WIDTH / 2, places[group.number][1]
        for parent in group.parents:
            x1, y1 = places[parent][0] + BOX_WIDTH / 2, places[parent][1] + BOX_HEIGHT
            bend = (y2 - y1) / 2
            lines.append(f"M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2 - 1:.1f}")
    height = max(len(rows) * (BOX_HEIGHT + _GAP_Y) - _GAP_Y, 0) + 2 * _MARGIN
    return Layout(width, height, places, tuple(lines), columns)


def in_a_list(groups: Sequence[Group]) -> Layout:
    """One group per line; a curve at the left connects a parent to a child that does not follow it directly."""
    left = _MARGIN + _LANE * _LANES
    row_of = {group.number: row for row, group in enumerate(groups)}
    places = {number: (float(left), row * LIST_ROW + LIST_ROW / 2) for number, row in row_of.items()}
    lines = []
    for group in groups:
        y2 = places[group.number][1]
        for parent in group.parents:
            y1, distance = places[parent][1], row_of[group.number] - row_of[parent]
            out = left - (0 if distance == 1 else min(distance, _LANES) * _LANE * 1.3)
            lines.append(f"M{left},{y1 + 6:.1f} C{out:.1f},{y1 + 6:.1f} {out:.1f},{y2 - 7:.1f} {left},{y2 - 7:.1f}")
    return Layout(LIST_WIDTH, len(groups) * LIST_ROW, places, tuple(lines))


def _ordered(groups: Sequence[Group]) -> list[list[int]]:
    depth: dict[int, int] = {}
    for group in groups:
        depth[group.number] = 1 + max((depth[parent] for parent in group.parents), default=-1)
    rows: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    parents = {group.number: group.parents for group in groups}
    position: dict[int, float] = {}
    for number, row in depth.items():
        rows[row].append(number)
    for row_numbers in rows:
        wanted = {
            number: sum(position[parent] for parent in parents[number]) / max(len(parents[number]), 1)
            for number in row_numbers
        }
        row_numbers.sort(key=lambda number: (wanted[number], number))
        for place, number in enumerate(row_numbers):
            position[number] = (place + 0.5) / len(row_numbers)
    return rows
