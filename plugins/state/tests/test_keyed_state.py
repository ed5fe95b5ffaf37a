"""The nodes of keyed state, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock import DStream, StateSpec
from penstock.spi import node_of
from penstock_state.partition_errors import StateUpdateError
from penstock_state.state_view import StateView

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput

pytestmark = pytest.mark.usefixtures("tables")


def test_errors_of_a_state_are_raised_once_after_a_job(
    context: FakeContext, make_input: Callable[..., FakeInput]
) -> None:
    def fail(_values: list[int], _state: int | None) -> int:
        raise ValueError("mine")

    (states,) = node_of(make_input(lambda _time_ms: [[("a", 1)]]).updateStateByKey(fail)).parents
    states.initialize(0)
    states.get_or_compute(100)
    with pytest.raises(StateUpdateError, match="First error: key 'a': ValueError: mine"):
        states.check_job()
    states.check_job()


@pytest.mark.parametrize(
    ("batch_ms", "every_ms"), [(100, 1_000), (1_000, 10_000), (10_000, 100_000)], ids=["0.1 s", "1 s", "10 s"]
)
def test_map_with_state_is_checkpointed_every_ten_slides(
    context: FakeContext, make_input: Callable[..., FakeInput], batch_ms: int, every_ms: int
) -> None:
    context.graph.batch_interval_ms = batch_ms
    for explicit in (None, 2 * batch_ms):
        stream: DStream[Any] = make_input().mapWithState(StateSpec.function(lambda key, value, state: None))
        if explicit is not None:
            stream.checkpoint(explicit / 1000)
        view = node_of(stream)
        assert isinstance(view, StateView)
        view.initialize(0)
        # A checkpointed stream remembers two intervals, any other one batch.
        assert view.remember_ms == batch_ms
        assert view.state.remember_ms == 2 * (explicit or every_ms)


def test_mapped_records_do_not_keep_the_partitioning_of_their_states(make_input: Callable[..., FakeInput]) -> None:
    mapped: Any = make_input().mapWithState(StateSpec.function(lambda key, value, state: None))
    results: Any = node_of(mapped)
    states: Any = node_of(mapped.stateSnapshots())
    assert (results.preserves_partitioning, states.preserves_partitioning) == (False, True)
