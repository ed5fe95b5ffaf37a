"""``updateStateByKey``: a state for each key, looked at in every batch."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.engine_parts import BatchFailedError

from penstock import DStream

pytestmark = pytest.mark.spark


LETTERS = [["a"], ["a", "b"], ["a", "b", "c"], ["a"], []]
COMING_AND_GOING: list[list[Any]] = [[("a", 1)], [("b", 1)], [("b", 1)], [], [("a", 1)]]


def total(values: list[int], state: int | None) -> int:
    return sum(values) + (state or 0)


def idle(values: list[int], state: tuple[int, int] | None) -> tuple[int, int] | None:
    """A key leaves with its second batch without values in a row, and can come back."""
    seen, idle = state or (0, 0)
    idle = 0 if values else idle + 1
    return None if idle == 2 else (seen + len(values), idle)


def now_and_then(stream: DStream[Any]) -> DStream[Any]:
    """Longer without an RDD than what is remembered with a checkpoint in every batch."""
    some = stream.transform(lambda time, rdd: rdd if time.timestamp() in (1, 5) else None)
    return some.updateStateByKey(total).checkpoint(1)


@pytest.fixture(scope="module")
def found(run_all: Any, sc: Any) -> dict[str, list[list[Any]]]:
    def counts(**options: Any) -> Any:
        return lambda letters, _: letters.map(lambda letter: (letter, 1)).updateStateByKey(total, **options)

    def lists(letters: DStream[Any], _: DStream[Any]) -> DStream[Any]:
        initial = sc.parallelize([("k", [0, 1])])
        numbers = letters.transform(lambda time, rdd: rdd.context.parallelize([("k", round(time.timestamp()) + 1)]))
        return numbers.updateStateByKey(lambda values, state: (state or []) + values, initialRDD=initial)

    batches: dict[str, list[list[Any]]] = run_all(
        {
            "counts": counts(numPartitions=2),
            "counts, begun": counts(initialRDD=sc.parallelize([("a", 1), ("c", 2)])),
            "lists": lists,
            "idle": lambda _, pairs: pairs.updateStateByKey(idle),
            "now and then": lambda _, pairs: now_and_then(pairs),
        },
        LETTERS,
        COMING_AND_GOING,
    )
    return batches


def test_sums_with_and_without_initial_states(found: dict[str, list[list[Any]]]) -> None:
    assert [dict(batch) for batch in found["counts"]] == [
        {"a": 1},
        {"a": 2, "b": 1},
        {"a": 3, "b": 2, "c": 1},
        {"a": 4, "b": 2, "c": 1},
        {"a": 4, "b": 2, "c": 1},
    ]
    assert [dict(batch) for batch in found["counts, begun"]] == [
        {"a": 2, "c": 2},
        {"a": 3, "b": 1, "c": 2},
        {"a": 4, "b": 2, "c": 3},
        {"a": 5, "b": 2, "c": 3},
        {"a": 5, "b": 2, "c": 3},
    ]


def test_initial_rdd_gives_the_numbers_of_pysparks_own_test(found: dict[str, list[list[Any]]]) -> None:
    assert found["lists"] == [[("k", list(range(last + 1)))] for last in range(2, 7)]


def test_returning_none_removes_a_key(found: dict[str, list[list[Any]]]) -> None:
    assert [dict(batch) for batch in found["idle"]] == [
        {"a": (1, 0)},
        {"a": (1, 1), "b": (1, 0)},
        {"b": (2, 0)},
        {"b": (2, 1)},
        {"a": (1, 0)},
    ]


def test_batches_without_an_rdd_have_no_new_values(found: dict[str, list[list[Any]]]) -> None:
    assert found["now and then"] == [[("a", 1)]] * 4 + [[("a", 2)]]


def test_a_key_whose_function_fails_keeps_its_state_and_others_are_updated(run_outputs: Any) -> None:
    def fails_on_13(values: list[int], state: int | None) -> int:
        if 13 in values:
            raise ValueError("unlucky")
        return total(values, state)

    seen: list[dict[str, int]] = []

    def program(stream: DStream[Any]) -> None:
        states = stream.updateStateByKey(fails_on_13)
        states.foreachRDD(lambda rdd: seen.append(dict(rdd.collect())))

    batches: list[list[Any]] = [[("a", 1), ("b", 1)], [("a", 13), ("b", 1), ("c", 13)], [("a", 1)], [("c", 1)]]
    with pytest.raises(BatchFailedError, match=r"key '[ac]': ValueError: unlucky"):
        run_outputs(program, batches)
    assert seen == [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 2, "c": 1}]
