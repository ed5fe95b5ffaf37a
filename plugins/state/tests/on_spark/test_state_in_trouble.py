"""State when a function fails where no output looks: the batch fails all the same. Outages: in tests/graph."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.engine_parts import BatchFailedError

from penstock import DStream, StateSpec

pytestmark = pytest.mark.spark


def total(values: list[int], state: int | None) -> int:
    if 13 in values:
        raise ValueError("unlucky")
    return sum(values) + (state or 0)


def add(key: str, value: int, state: Any) -> tuple[str, int]:
    state.update(total([value], state.getOption()))
    return key, state.get()


@pytest.mark.parametrize("name", ["updateStateByKey", "mapWithState"])
def test_a_state_function_failure_in_an_unread_partition_fails_the_batch(run_outputs: Any, name: str) -> None:
    counted: list[int] = []

    def program(stream: DStream[Any]) -> None:
        states = (
            stream.updateStateByKey(total)
            if name == "updateStateByKey"
            else stream.mapWithState(StateSpec.function(add))
        )
        states.foreachRDD(lambda rdd: counted.append(len(rdd.take(1))))

    with pytest.raises(BatchFailedError, match="First error: key 'z': ValueError: unlucky"):
        run_outputs(program, [[("a", 1), ("b", 1), ("z", 13)]])
    assert counted == [1]
