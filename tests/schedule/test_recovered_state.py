"""``RecoveredState``: what is computed, and which restore points are used, before each batch that runs again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from penstock.graph.dstream_graph import DStreamGraph
from penstock.schedule.recovered_state import RecoveredState, StateRestore, without

DAY = range(1000, 86_401_000, 100)


class Graph:
    batch_interval_ms = 100

    def __init__(self) -> None:
        self.done: list[object] = []

    def advance_state(self, times_ms: Iterable[int]) -> None:
        self.done += times_ms

    def restore(self, time_ms: int) -> StateRestore:
        return StateRestore(time_ms, lambda: self.done.append(f"restored {time_ms}"))


@pytest.mark.parametrize(
    ("later", "advanced", "done"),
    [
        ([], [300, 600], [200, 400, 500]),
        # The batch that was generated has advanced the state itself.
        ([], [300, 400, 500], [200]),
        ([], [100, 300], [200]),
        ([400], [300, 700], [200, "restored 400", 500, 600]),
        # The batch uses the state that was checkpointed for it.
        ([400], [300, 400], [200, "restored 400"]),
        # A batch never uses a younger state.
        ([401], [300, 400], [200]),
        ([400, 600], [700], ["restored 400", "restored 600"]),
        ([400, 900], [300, 700, 1100], [200, "restored 400", 500, 600, "restored 900", 1000]),
    ],
)
def test_state_is_advanced_to_the_last_batch_before_each_time(
    later: list[int], advanced: list[int], done: list[object]
) -> None:
    graph = Graph()
    state = RecoveredState(cast(DStreamGraph, graph), 100, map(graph.restore, later))
    for before_ms in advanced:
        state.advance(before_ms)
    assert graph.done == done


@pytest.mark.parametrize(
    ("skipped", "remaining"),
    [
        ([], [100, 200, 300, 400]),
        ([range(200, 400, 100)], [100, 400]),
        ([range(-500, 100, 100)], [100, 200, 300, 400]),
        ([range(-500, 300, 100)], [300, 400]),
        ([range(300, 900, 100)], [100, 200]),
        ([range(0, 900, 100)], []),
        ([range(100, 200, 100), range(300, 400, 100)], [200, 400]),
        ([DAY], [100, 200, 300, 400]),
    ],
)
def test_skipped_times_are_left_out(skipped: list[range], remaining: list[int]) -> None:
    assert [time_ms for times in without(range(100, 500, 100), skipped) for time_ms in times] == remaining


def test_a_day_of_skipped_times_costs_nothing() -> None:
    parts = [times for times in without(range(900, DAY.stop + 100, 100), [DAY]) if times]
    assert parts == [range(900, 1000, 100), range(DAY.stop, DAY.stop + 100, 100)]
