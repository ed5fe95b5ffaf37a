"""``updateStateByKey``: a state for each key, looked at in every batch."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


LETTERS = [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b"], ["a"], []]


def total(values: list[int], state: int | None) -> int:
    return sum(values) + (state or 0)


def test_sums_with_and_without_initial_states(run_all: Any, sc: Any) -> None:
    def counts(**options: Any) -> Any:
        return lambda stream: stream.map(lambda letter: (letter, 1)).updateStateByKey(total, **options)

    initial = [("a", 1), ("c", 2)]
    found = run_all(
        {
            "none": counts(numPartitions=2),
            "an RDD": counts(initialRDD=sc.parallelize(initial)),
        },
        LETTERS,
    )
    assert [dict(batch) for batch in found["none"]] == [
        {"a": 1},
        {"a": 2, "b": 1},
        {"a": 3, "b": 2, "c": 1},
        {"a": 4, "b": 3, "c": 1},
        {"a": 5, "b": 3, "c": 1},
        {"a": 5, "b": 3, "c": 1},
    ]
    assert [dict(batch) for batch in found["an RDD"]] == [
        {"a": 2, "c": 2},
        {"a": 3, "b": 1, "c": 2},
        {"a": 4, "b": 2, "c": 3},
        {"a": 5, "b": 3, "c": 3},
        {"a": 6, "b": 3, "c": 3},
        {"a": 6, "b": 3, "c": 3},
    ]


def test_pysparks_numbers(harness: StreamHarness, sc: Any) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        initial = sc.parallelize([("k", [0, 1])])
        return stream.updateStateByKey(lambda values, state: (state or []) + values, initialRDD=initial)

    batches = harness.run(operation, [[("k", n)] for n in (2, 3, 4)])
    assert batches == [[("k", [0, 1, 2])], [("k", [0, 1, 2, 3])], [("k", [0, 1, 2, 3, 4])]]


def test_none_removes_a_key(harness: StreamHarness) -> None:
    # A key leaves with its second batch without values in a row, and can come back.
    def idle(values: list[int], state: tuple[int, int] | None) -> tuple[int, int] | None:
        seen, idle = state or (0, 0)
        idle = 0 if values else idle + 1
        return None if idle == 2 else (seen + len(values), idle)

    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.updateStateByKey(idle)

    batches = harness.run(operation, [[("a", 1)], [("b", 1)], [("b", 1)], [], [("a", 1)]])
    assert [dict(batch) for batch in batches] == [
        {"a": (1, 0)},
        {"a": (1, 1), "b": (1, 0)},
        {"b": (2, 0)},
        {"b": (2, 1)},
        {"a": (1, 0)},
    ]


def test_a_key_whose_function_fails_keeps_its_state_and_the_others_go_on(harness: StreamHarness) -> None:
    def fails_on_13(values: list[int], state: int | None) -> int:
        if 13 in values:
            raise ValueError("unlucky")
        return total(values, state)

    seen: list[dict[str, int]] = []

    def operation(stream: DStream[Any]) -> DStream[Any]:
        states = stream.updateStateByKey(fails_on_13)
        states.foreachRDD(lambda rdd: seen.append(dict(rdd.collect())))
        return states

    batches: list[list[Any]] = [[("a", 1), ("b", 1)], [("a", 13), ("b", 1), ("c", 13)], [("a", 1)], [("c", 1)]]
    with pytest.raises(BatchFailedError, match=r"key '[ac]': ValueError: unlucky"):
        harness.run(operation, batches)
    assert seen == [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 2, "c": 1}]


def test_batches_without_an_rdd_have_no_new_values(run_all: Any) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        some = stream.transform(lambda time, rdd: rdd if time.timestamp() in (1, 7) else None)
        return some.updateStateByKey(total).checkpoint(1)

    batches = [[("a", 1)], [], [], [], [], [], [("a", 1)]]
    assert run_all({"": operation}, batches)[""] == [[("a", 1)]] * 6 + [[("a", 2)]]
