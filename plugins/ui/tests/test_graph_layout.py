from __future__ import annotations

from hypothesis import given, settings, strategies as st
from plugins.ui.tests.snapshots import graph

from penstock import DStreamInfo
from penstock_ui.dashboard.graph_layout import grouped, in_a_list, in_rows


def node(number: int, *parents: int, at: str = "") -> DStreamInfo:
    return DStreamInfo(number, "MapPartitionsDStream", "", at or f"map at app.py:{number}", parents)


def test_every_stream_is_below_its_parents() -> None:
    groups = grouped(graph())
    places = in_rows(groups).places
    assert len(groups) == len(graph())
    for each in graph():
        for parent in each.parents:
            assert places[each.number][1] > places[parent][1]


def test_boxes_of_a_row_do_not_overlap_and_stay_inside() -> None:
    layout = in_rows(grouped(graph()))
    for number, (x, y) in layout.places.items():
        assert 0 <= x <= layout.width - 168
        assert 0 <= y <= layout.height - 52
        assert not any(other != number and y2 == y and abs(x2 - x) < 168 for other, (x2, y2) in layout.places.items())


def test_streams_made_in_a_loop_are_drawn_as_one() -> None:
    receivers = [
        DStreamInfo(2 * i, "ReceiverInputDStream", f"r{i}", "receiverStream at a.py:1", ()) for i in range(1000)
    ]
    mapped = [node(2 * i + 1, 2 * i, at="map at a.py:2") for i in range(1000)]
    union = DStreamInfo(5000, "UnionDStream", "", "union at a.py:3", tuple(stream.number for stream in mapped))
    nodes = sorted([*receivers, *mapped, union], key=lambda stream: stream.number)
    groups = grouped(nodes)
    assert [(len(group.streams), group.parents) for group in groups] == [(1000, ()), (1000, (0,)), (1, (1,))]
    assert in_rows(groups).columns == 1


def test_two_alike_streams_stay_apart() -> None:
    groups = grouped([node(0), node(1, 0, at="same"), node(2, 0, at="same"), node(3, 1, 2)])
    assert len(groups) == 4


def test_missing_and_later_parents_are_ignored() -> None:
    groups = grouped([node(0, 7), node(1, 1, 0, 2), node(2)])
    assert [(group.number, group.parents) for group in groups] == [(0, ()), (2, ()), (1, (0,))]


def test_nothing_to_draw_is_an_empty_picture() -> None:
    assert in_rows(grouped([])).places == in_a_list(grouped([])).places == {}


@given(st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=3), st.sampled_from("abc")), max_size=30))
@settings(deadline=None)
def test_every_graph_can_be_drawn(made: list[tuple[list[int], str]]) -> None:
    nodes = [node(number, *parents, at=at) for number, (parents, at) in enumerate(made)]
    groups = grouped(nodes)
    assert sorted(stream.number for group in groups for stream in group.streams) == list(range(len(nodes)))
    seen: set[int] = set()
    for group in groups:
        assert set(group.parents) <= seen
        seen.add(group.number)
    assert set(in_rows(groups).places) == set(in_a_list(groups).places) == seen
