"""``mapWithState``: a state for each key, at a cost in proportion to the batch."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pyspark.core.rdd import Partitioner

from penstock import DStream, State, StateSpec
from penstock.errors import BatchFailedError
from penstock.graph.keyed_state import MapWithStateDStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


LETTERS = [[], ["a"], ["a", "b"], ["a", "b", "c"], ["a", "b"], ["a"], []]


def keyed(stream: DStream[Any]) -> DStream[Any]:
    return stream.map(lambda letter: (letter, 1))


def running(key: str, value: int, state: State[int]) -> int:
    total = (state.getOption() or 0) + value
    state.update(total)
    return total


class Both:
    """What the function returned, and the states, of each batch."""

    def __init__(self, run_all: Any) -> None:
        self._run_all = run_all

    def __call__(self, spec: StateSpec, batches: list[list[Any]]) -> tuple[list[list[Any]], list[dict[str, Any]]]:
        made: list[MapWithStateDStream] = []

        def mapped(stream: DStream[Any]) -> DStream[Any]:
            made.append(keyed(stream).mapWithState(spec))
            return made[0]

        found = self._run_all({"mapped": mapped, "states": lambda _: made[0].stateSnapshots()}, batches)
        return found["mapped"], [dict(states) for states in found["states"]]


@pytest.fixture
def both(run_all: Any) -> Both:
    return Both(run_all)


def test_a_function_of_key_value_and_state(both: Both) -> None:
    mapped, states = both(StateSpec.function(running).numPartitions(2), LETTERS)
    assert mapped == [[], [1], [1, 2], [1, 2, 3], [3, 4], [5], []]
    last = {"a": 5, "b": 3, "c": 1}
    assert states == [{}, {"a": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 2, "c": 1}, {"a": 4, "b": 3, "c": 1}, last, last]


def test_initial_states(both: Both, sc: Any) -> None:
    initial = [("a", 5), ("b", 10), ("c", -20), ("d", 0)]
    mapped, states = both(StateSpec.function(running).initialState(sc.parallelize(initial)), LETTERS)
    assert mapped == [[], [6], [11, 7], [-19, 12, 8], [13, 9], [10], []]
    assert states[0] == dict(initial)
    assert states[-1] == {"a": 10, "b": 13, "c": -19, "d": 0}


def test_a_function_of_the_time_leaves_records_out(both: Both) -> None:
    def every_other(time: datetime, key: str, value: int, state: State[int]) -> tuple[float, str] | None:
        state.update((state.getOption() or 0) + value)
        return (time.timestamp(), key) if state.get() % 2 else None

    mapped, states = both(StateSpec.function(every_other).initialState([("b", 1)]), LETTERS[1:4])
    assert mapped == [[(1.0, "a")], [], [(3.0, "a"), (3.0, "b"), (3.0, "c")]]
    assert states[-1] == {"a": 3, "b": 3, "c": 1}


def test_states_are_removed_and_made_again(both: Both) -> None:
    def toggle(key: str, value: int, state: State[bool]) -> str:
        if state.exists():
            state.remove()
            return f"-{key}"
        state.update(True)
        return f"+{key}"

    mapped, states = both(StateSpec.function(toggle).numPartitions(1), LETTERS)
    assert mapped == [[], ["+a"], ["+b", "-a"], ["+a", "+c", "-b"], ["+b", "-a"], ["+a"], []]
    assert [set(batch) for batch in states] == [
        set(),
        {"a"},
        {"b"},
        {"a", "c"},
        {"b", "c"},
        {"a", "b", "c"},
        {"a", "b", "c"},
    ]


def test_idle_states_time_out_once(both: Both) -> None:
    def watch(key: str, value: int | None, state: State[int]) -> Any:
        if state.isTimingOut():
            assert value is None
            return ("timed out", key, state.get())
        state.update((state.getOption() or 0) + 1)
        return None

    # At 5 s the state of 1 s is older than 3 s, that of 2 s is not.
    batches = [["a", "b", "c"], ["a", "b"], ["a"], ["a"], ["a"], ["a"], ["a", "c"]]
    mapped, states = both(StateSpec.function(watch).timeout(3), batches)
    assert [[record for record in batch if record] for batch in mapped] == [
        [],
        [],
        [],
        [],
        [("timed out", "c", 1)],
        [("timed out", "b", 2)],
        [],
    ]
    assert [set(batch) for batch in states] == [
        {"a", "b", "c"},
        {"a", "b", "c"},
        {"a", "b", "c"},
        {"a", "b", "c"},
        {"a", "b"},
        {"a"},
        {"a", "c"},
    ]
    assert states[-1] == {"a": 7, "c": 1}


def test_a_record_refreshes_a_state_that_is_not_updated(both: Both) -> None:
    def look(key: str, value: int | None, state: State[int]) -> bool:
        if not state.exists():
            state.update(0)
        return state.isTimingOut()

    mapped, _ = both(StateSpec.function(look).timeout(1), [["a"], ["a"], ["a"], [], []])
    assert mapped == [[False], [False], [False], [], [True]]


def test_no_state_and_no_update_is_none(both: Both) -> None:
    mapped, states = both(StateSpec.function(lambda key, value, state: state.exists()).timeout(1), [["a"], [], []])
    assert (mapped, states) == ([[False], [], []], [{}, {}, {}])


def test_states_are_partitioned_as_the_spec_says(run_all: Any) -> None:
    by_letter = Partitioner(3, lambda key: ord(key) - ord("a"))

    def snapshots(spec: StateSpec) -> Any:
        return lambda stream: keyed(stream).mapWithState(spec).stateSnapshots().glom()

    found = run_all(
        {
            "number": snapshots(StateSpec.function(running).numPartitions(5)),
            "function": snapshots(StateSpec.function(running).partitioner(by_letter).initialState([("c", 7)])),
        },
        [["a", "b"], ["b"]],
    )
    assert [len(batch) for batch in found["number"]] == [5, 5]
    assert found["function"] == [[[("a", 1)], [("b", 1)], [("c", 7)]], [[("a", 1)], [("b", 2)], [("c", 7)]]]


def test_what_a_state_refuses(both: Both) -> None:
    def attempt(call: Any) -> str | None:
        try:
            call()
        except (ValueError, LookupError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def misuse(key: str, value: int | None, state: State[int]) -> list[str | None]:
        if not state.exists() and key != "removed":
            told = [attempt(state.get), attempt(lambda: state.update(None))]  # type: ignore[arg-type]
            state.update(1)
            return told
        if not state.isTimingOut():
            state.update(1)
            state.remove()
        return [attempt(lambda: state.update(2)), attempt(state.remove)]

    mapped, _ = both(StateSpec.function(misuse).timeout(1), [["new"], [], ["removed"]])
    unset = "LookupError: State is not set: ask exists() first, or use getOption()"
    assert mapped[0] == [[unset, "ValueError: a state cannot be None; remove() forgets it"]]
    assert mapped[1] == []
    assert sorted(mapped[2]) == [
        [
            "ValueError: cannot update a state that times out: it is removed when the function returns",
            "ValueError: cannot remove a state that times out: it is removed when the function returns",
        ],
        ["ValueError: cannot update a state that was removed", "ValueError: cannot remove a state that was removed"],
    ]


def test_a_key_whose_function_fails_keeps_its_state_and_the_others_go_on(harness: StreamHarness) -> None:
    def fails_on_13(key: str, value: int, state: State[int]) -> int:
        state.update((state.getOption() or 0) + value)
        if value == 13:
            raise ValueError("unlucky")
        return state.get()

    mapped: list[list[int]] = []
    states: list[dict[str, int]] = []

    def operation(stream: DStream[Any]) -> DStream[Any]:
        made = stream.mapWithState(StateSpec.function(fails_on_13))
        made.foreachRDD(lambda rdd: mapped.append(sorted(rdd.collect())))
        made.stateSnapshots().foreachRDD(lambda rdd: states.append(dict(rdd.collect())))
        return made

    batches: list[list[Any]] = [[("a", 1), ("b", 1)], [("a", 5), ("b", 1), ("a", 13), ("a", 5)], [("a", 1)], []]
    with pytest.raises(BatchFailedError, match="key 'a': ValueError: unlucky"):
        harness.run(operation, batches)
    assert mapped == [[1, 1], [2], []]
    assert states == [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 2}]


def test_states_of_a_class_of_the_program(both: Both) -> None:
    class Count:
        def __init__(self) -> None:
            self.number = 0

    def count(key: str, value: int, state: State[Count]) -> int:
        counted = state.getOption() or Count()
        counted.number += value
        state.update(counted)
        return counted.number

    mapped, states = both(StateSpec.function(count), LETTERS[1:4])
    assert mapped == [[1], [1, 2], [1, 2, 3]]
    assert {key: state.number for key, state in states[-1].items()} == {"a": 3, "b": 2, "c": 1}
