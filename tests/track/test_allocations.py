"""``Allocations``: what each event changes, and that the events of a state restore it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock import StoredBlock
from penstock.track import allocations
from penstock.track.allocations import (
    Allocations,
    Event,
    allocations_lost,
    batch_allocated,
    batches_cleaned,
    blocks_added,
    receivers_launched,
    streams_forgotten,
)

FOREIGN = StoredBlock("from-a-plugin", 1, 10, 100, "/elsewhere")


def block(number: int, epoch: int = 1, stream_id: int = 1) -> StoredBlock:
    return StoredBlock(f"input-{stream_id}-{epoch}-{number}", stream_id, 10, 100, f"/{number}")


def after(*events: Event) -> Allocations:
    made = Allocations()
    for event in events:
        made.apply(event)
    return made


def queued(state: Allocations, stream_id: int = 1) -> list[str]:
    return [waiting.block_id.rpartition("-")[2] for waiting in state.unallocated(stream_id)]


def test_block_with_an_id_of_another_form_is_new_until_it_is_added_and_again_after_its_clean_up() -> None:
    state = after(blocks_added([FOREIGN]), blocks_added([FOREIGN]))
    assert (state.num_known, state.new([FOREIGN])) == (1, [])
    state.apply(batch_allocated(1000, {1: [FOREIGN.block_id]}))
    state.apply(blocks_added([FOREIGN]))
    assert state.unallocated(1) == []
    state.apply(batches_cleaned(1001))
    assert (state.num_known, state.new([FOREIGN])) == (0, [FOREIGN])


def test_hundred_launches_of_a_stream_are_remembered() -> None:
    state = after(*(blocks_added([block(0, epoch)]) for epoch in range(1, 101)))
    assert state.new([block(0, 1), block(0, 100)]) == []
    state.apply(blocks_added([block(0, 101)]))
    assert state.new([block(0, 1), block(0, 2)]) == [block(0, 1)]


def test_forgotten_stream_leaves_nothing_behind() -> None:
    state = after(
        blocks_added([block(0), block(0, stream_id=2), evolve(block(1), metadata={"offset": 7})]),
        batch_allocated(1000, {1: [block(0).block_id]}),
        receivers_launched({1: 3}),
        streams_forgotten([1]),
    )
    assert state.retained() == [block(0, stream_id=2)]
    summary = state.events()[-1]
    assert (summary["accepted"], summary["epochs"]) == ([[2, 1, [0, 1]]], {"2": 1})
    assert state.waiting_streams == {2}


def test_stream_whose_blocks_are_allocated_does_not_wait() -> None:
    state = after(blocks_added([block(0), block(1), block(0, stream_id=2)]))
    assert state.waiting_streams == {1, 2}
    state.apply(batch_allocated(1000, {1: [block(0).block_id], 2: [block(0, stream_id=2).block_id, "unknown"]}))
    assert state.waiting_streams == {1}
    state.apply(batch_allocated(2000, {1: [block(1).block_id], 3: ["unknown"]}))
    assert state.waiting_streams == set()


@pytest.mark.parametrize(
    ("allocated", "last", "batch"),
    [
        # The run died before its first batch, or one of its later ones, was logged.
        ([], 1000, 1000),
        ([], 3000, 1000),
        ([], 0, None),
        ([1000], 2000, 2000),
        ([1000], 5000, 2000),
        ([1000], 1000, None),
    ],
)
def test_unallocated_blocks_belong_to_the_first_batch_whose_allocation_is_lost(
    allocated: list[int], last: int, batch: int | None
) -> None:
    state = after(
        *(batch_allocated(time_ms, {}) for time_ms in allocated),
        blocks_added([block(0), block(1), block(0, stream_id=2)]),
        allocations_lost(0, 1000, last, [1]),
    )
    assert queued(state) == ([] if batch else ["0", "1"])
    # Streams that are not named keep theirs.
    assert queued(state, 2) == ["0"]
    if batch is not None:
        assert state.blocks(batch, 1) == [block(0), block(1)]
        assert state.last_allocated_ms == batch


def test_events_name_only_what_differs_from_the_default() -> None:
    values = {"block_id": "input-1-1-0", "stream_id": 1, "num_records": 10, "num_bytes": 100, "path": "/0"}
    assert blocks_added([block(0)]) == {"what": "blocks added", "blocks": [values]}
    named = {**values, "metadata": {"offset": 7}}
    assert blocks_added([evolve(block(0), metadata={"offset": 7})])["blocks"] == [named]


def test_blocks_are_added_by_events_of_at_most_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocations, "_BLOCKS_PER_EVENT", 3)
    state = after(blocks_added([block(number) for number in range(7)]))
    assert [len(event["blocks"]) for event in state.events()[:-1]] == [3, 3, 1]


EVENTS = st.one_of(
    st.builds(
        lambda stream_id, epoch, number: blocks_added([block(number, epoch, stream_id)]),
        st.integers(1, 2),
        st.integers(1, 3),
        st.integers(0, 8),
    ),
    st.just(blocks_added([FOREIGN])),
    st.builds(
        lambda time_ms, numbers: batch_allocated(time_ms, {1: [block(number).block_id for number in numbers]}),
        st.integers(0, 5),
        st.lists(st.integers(0, 8), max_size=3),
    ),
    st.builds(batches_cleaned, st.integers(0, 6), st.just([range(2, 4)])),
    st.builds(lambda epoch: receivers_launched({1: epoch}), st.integers(1, 5)),
    st.builds(lambda stream_id: streams_forgotten([stream_id]), st.integers(1, 2)),
)


def content(state: Allocations) -> Any:
    """All that can be asked."""
    everything = [block(number, epoch, stream_id) for stream_id in (1, 2) for epoch in (1, 2, 3) for number in range(9)]
    return (
        {time_ms: {stream_id: state.blocks(time_ms, stream_id) for stream_id in (1, 2)} for time_ms in state.times},
        state.queues([1, 2]),
        state.waiting_streams,
        state.new([*everything, FOREIGN]),
        (state.num_known, state.known_bytes, state.last_allocated_ms, state.epochs, state.positions),
    )


@given(st.lists(EVENTS, max_size=25))
@settings(max_examples=examples(80), derandomize=True, deadline=None)
def test_events_of_a_state_restore_it(events: list[Event]) -> None:
    state = after(*events)
    assert content(after(*state.events())) == content(state)
    assert state.num_known == len(state.retained())
    assert state.known_bytes == sum(each.num_bytes for each in state.retained())
