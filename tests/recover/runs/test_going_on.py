"""A run that goes on from the checkpoint of another: what it carries on, and what it does again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.recover.runs.conftest import Numbered, Output, Runs

from penstock import DStream, StateSpec, StreamingContext

pytestmark = pytest.mark.spark


def numbers(number: int) -> list[Any]:
    return [("all", number), (f"key {number % 3}", 1)]


def expected_sums(number: int) -> list[Any]:
    keys = sorted({f"key {n % 3}" for n in range(1, number + 1)})
    counts = [[key, sum(f"key {n % 3}" == key for n in range(1, number + 1))] for key in keys]
    return [["all", number * (number + 1) // 2], *counts]


def total(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0)


def count_all(key: str, value: Any, state: Any) -> tuple[str, int]:
    before = state.get() if state.exists() else 0
    state.update(before + value)
    return key, before + value


def updated(stream: DStream[Any]) -> DStream[Any]:
    return stream.updateStateByKey(total, 2)


def mapped(stream: DStream[Any]) -> DStream[Any]:
    return stream.mapWithState(StateSpec.function(count_all).numPartitions(2)).stateSnapshots()


def build(operation: Callable[[DStream[Any]], DStream[Any]], output: Output) -> Callable[[StreamingContext], None]:
    return lambda context: output.collect(operation(Numbered(context, numbers)))


@pytest.mark.parametrize("operation", [updated, mapped])
def test_state_goes_on_where_it_was_and_missed_batches_are_made(
    operation: Callable[[DStream[Any]], DStream[Any]], runs: Runs, output: Output
) -> None:
    first = runs.new(build(operation, output)).start()
    first.batches(13)
    left = runs.break_off()
    first.stop()
    runs.clock.advance(2000)
    second = runs.new(build(operation, output), left).start()
    second.batches(2)
    assert runs.created == 1
    assert {number: output.batches[number] for number in (13, 14, 15, 16, 17)} == {
        number: expected_sums(number) for number in (13, 14, 15, 16, 17)
    }
