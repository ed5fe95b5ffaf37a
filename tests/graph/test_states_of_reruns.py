"""A recovered state that runs old batches again, and then continues from a younger RDD; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import RDD
from tests.helpers.fake_graph import FakeRDD

from penstock.graph import stateful
from penstock.graph.stateful import StatefulDStream
from penstock.spi import node_of

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeInput

pytestmark = pytest.mark.usefixtures("tables")

INTERVAL_MS = 100
# The default checkpoint interval of a state.
CHECKPOINT_MS = 10_000


# The simulator found files of such RDDs that nobody deleted: seed 11 with the fault sink.
def test_states_before_the_youngest_recovered_one_are_not_checkpointed(
    make_input: Callable[..., FakeInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    marked: list[Any] = []
    monkeypatch.setattr(RDD, "checkpoint", lambda rdd: marked.append(rdd))
    monkeypatch.setattr(stateful, "checkpointed_state", lambda *_saved: FakeRDD([[], []]))
    counts = make_input(lambda _time_ms: [[("a", 1)]]).updateStateByKey(
        lambda values, state: sum(values) + (state or 0)
    )
    (states,) = node_of(counts).parents
    assert isinstance(states, StatefulDStream)
    states.initialize(0)
    before_ms, failed_ms, younger_ms = CHECKPOINT_MS - 2 * INTERVAL_MS, CHECKPOINT_MS, CHECKPOINT_MS + 5 * INTERVAL_MS
    states.recover({before_ms: "before", younger_ms: "younger"}, 2, "")
    states.restore([before_ms])
    for time_ms in range(before_ms + INTERVAL_MS, failed_ms + INTERVAL_MS, INTERVAL_MS):
        states.get_or_compute(time_ms)
    assert marked == []
    states.restore([younger_ms])
    for time_ms in range(younger_ms + INTERVAL_MS, 2 * CHECKPOINT_MS + INTERVAL_MS, INTERVAL_MS):
        states.get_or_compute(time_ms)
    assert marked == [states.get_or_compute(2 * CHECKPOINT_MS)]
