"""``RecoveredState``: what is computed, and which restore points are used, before each batch that runs again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from penstock.graph.dstream_graph import DStreamGraph
from penstock.schedule.recovered_state import RecoveredState, StateRestore


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
