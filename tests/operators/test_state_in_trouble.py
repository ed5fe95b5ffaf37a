"""State when batches fail: what was there stays, and nothing fails in silence."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream, StateSpec
from penstock.errors import BatchFailedError
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark

ONES = [[("a", 1)]] * 30


def total(values: list[int], state: int | None) -> int:
    if 13 in values:
        raise ValueError("unlucky")
    return sum(values) + (state or 0)


def add(key: str, value: int, state: Any) -> tuple[str, int]:
    state.update(total([value], state.getOption()))
    return key, state.get()


def unless_down(time: Any, rdd: Any) -> Any:
    if 3 <= time.timestamp() <= 27:
        raise ConnectionError("the lookup service is down")
    return rdd


@pytest.mark.parametrize("name", ["updateStateByKey", "mapWithState"])
def test_an_outage_longer_than_what_is_remembered_leaves_the_state(harness: StreamHarness, name: str) -> None:
    seen: dict[int, list[Any]] = {}

    def operation(stream: DStream[Any]) -> DStream[Any]:
        up = stream.transform(unless_down)
        if name == "updateStateByKey":
            states = up.updateStateByKey(total, initialRDD=[("a", 100)])
        else:
            states = up.mapWithState(StateSpec.function(add).initialState([("a", 100)]))
        states.foreachRDD(lambda time, rdd: seen.update({round(time.timestamp()): rdd.collect()}))
        return stream

    with pytest.raises(BatchFailedError, match="the lookup service is down"):
        harness.run(operation, ONES)
    assert seen == {n: [("a", 100 + n)] for n in (1, 2)} | {n: [("a", 75 + n)] for n in (28, 29, 30)}


@pytest.mark.parametrize("name", ["updateStateByKey", "mapWithState"])
def test_a_failure_that_no_output_looks_at_fails_the_batch(harness: StreamHarness, name: str) -> None:
    counted: list[int] = []

    def operation(stream: DStream[Any]) -> DStream[Any]:
        states = (
            stream.updateStateByKey(total)
            if name == "updateStateByKey"
            else stream.mapWithState(StateSpec.function(add))
        )
        states.foreachRDD(lambda rdd: counted.append(len(rdd.take(1))))
        return stream

    with pytest.raises(BatchFailedError, match="first that of key 'z': ValueError: unlucky"):
        harness.run(operation, [[("a", 1), ("b", 1), ("z", 13)]])
    assert counted == [1]
