"""``mapWithState``: a state for each key, at a cost in proportion to the batch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.core.rdd import Partitioner
from tests.helpers.engine_parts import BatchFailedError

from penstock import DStream, State, StateSpec
from penstock.spi import MapWithStateDStream

pytestmark = pytest.mark.spark

Batches = list[list[Any]]

LETTERS = [[], ["a"], ["a", "b"], ["a", "b", "c"], []]


def keyed(stream: DStream[Any]) -> DStream[Any]:
    return stream.map(lambda letter: (letter, 1))


def running(key: str, value: int, state: State[int]) -> int:
    total = (state.getOption() or 0) + value
    state.update(total)
    return total


def every_other(time: Any, key: str, value: int, state: State[int]) -> tuple[float, str] | None:
    state.update((state.getOption() or 0) + value)
    return (time.timestamp(), key) if state.get() % 2 else None


def toggle(key: str, value: int, state: State[bool]) -> str:
    if state.exists():
        state.remove()
        return f"-{key}"
    state.update(True)
    return f"+{key}"


class Count:
    """As a class of the program's own file."""

    __module__ = "__main__"

    def __init__(self) -> None:
        self.number = 0


def counted(key: str, value: int, state: State[Count]) -> int:
    count = state.getOption() or Count()
    count.number += value
    state.update(count)
    return count.number


def watch(key: str, value: int | None, state: State[int]) -> Any:
    if state.isTimingOut():
        assert value is None
        return ("timed out", key, state.get())
    state.update((state.getOption() or 0) + 1)
    return None


def look(key: str, value: int | None, state: State[int]) -> bool:
    if not state.exists():
        state.update(0)
    return state.isTimingOut()


def attempt(call: Callable[[], object]) -> str | None:
    try:
        call()
    except (ValueError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def misuse(key: str, value: int | None, state: State[int]) -> list[str | None]:
    if not state.exists() and key != "removed":
        results = [attempt(state.get), attempt(lambda: state.update(None))]  # type: ignore[arg-type]
        state.update(1)
        return results
    if not state.isTimingOut():
        state.update(1)
        state.remove()
    return [attempt(lambda: state.update(2)), attempt(state.remove)]


@pytest.fixture(scope="module")
def found(run_all: Any, sc: Any) -> dict[str, Batches]:
    """What each function returned, and the states of all keys, of each batch: each with an input of its own."""
    begun = sc.parallelize([("a", 5), ("b", 10), ("c", -20), ("d", 0)])
    programs: dict[str, tuple[StateSpec[Any, Any, Any, Any], Batches]] = {
        "running": (StateSpec.function(running).numPartitions(2), LETTERS),
        "begun": (StateSpec.function(running).initialState(begun), LETTERS),
        "every other": (StateSpec.function(every_other).initialState([("b", 1)]), LETTERS[1:4]),
        "toggle": (StateSpec.function(toggle).numPartitions(1), LETTERS),
        "counted": (StateSpec.function(counted), LETTERS),
        "watch": (StateSpec.function(watch).timeout(2), [["a", "b", "c"], ["a", "b"], ["a"], ["a"], ["a", "c"]]),
        "look": (StateSpec.function(look).timeout(1), [["a"], ["a"], ["a"], [], []]),
        "no state": (StateSpec.function(lambda key, value, state: state.exists()).timeout(1), [["a"], [], []]),
        "misuse": (StateSpec.function(misuse).timeout(1), [["new"], [], ["removed"]]),
    }
    mapped: dict[str, MapWithStateDStream[Any, Any, Any]] = {}
    operations: dict[str, Any] = {}
    for number, (name, (spec, _batches)) in enumerate(programs.items()):

        def returned(
            *streams: DStream[Any], number: int = number, name: str = name, spec: StateSpec[Any, Any, Any, Any] = spec
        ) -> Any:
            mapped[name] = keyed(streams[number]).mapWithState(spec)
            return mapped[name]

        operations[name] = returned
        operations[f"{name}: states"] = lambda *_streams, name=name: mapped[name].stateSnapshots()
    batches: dict[str, Batches] = run_all(operations, *(batches for _spec, batches in programs.values()))
    return batches


def test_mapping_function_gets_key_value_and_state(found: dict[str, Batches]) -> None:
    assert found["running"] == [[], [1], [1, 2], [1, 2, 3], []]
    last = [("a", 3), ("b", 2), ("c", 1)]
    assert found["running: states"] == [[], [("a", 1)], [("a", 2), ("b", 1)], last, last]


def test_initial_states_are_there_in_the_first_batch(found: dict[str, Batches]) -> None:
    assert found["begun"] == [[], [6], [11, 7], [-19, 12, 8], []]
    assert found["begun: states"][0] == [("a", 5), ("b", 10), ("c", -20), ("d", 0)]
    assert found["begun: states"][-1] == [("a", 8), ("b", 12), ("c", -19), ("d", 0)]


def test_a_function_of_the_time_leaves_records_out(found: dict[str, Batches]) -> None:
    assert found["every other"] == [[(1.0, "a")], [], [(3.0, "a"), (3.0, "b"), (3.0, "c")], [], []]
    assert found["every other: states"][-1] == [("a", 3), ("b", 3), ("c", 1)]


def test_removed_states_can_be_created_again(found: dict[str, Batches]) -> None:
    assert found["toggle"] == [[], ["+a"], ["+b", "-a"], ["+a", "+c", "-b"], []]
    states = [[key for key, _state in batch] for batch in found["toggle: states"]]
    assert states == [[], ["a"], ["b"], ["a", "c"], ["a", "c"]]


def test_states_of_a_class_of_the_program(found: dict[str, Batches]) -> None:
    assert found["counted"] == [[], [1], [1, 2], [1, 2, 3], []]
    assert {key: state.number for key, state in found["counted: states"][-1]} == {"a": 3, "b": 2, "c": 1}


def test_idle_states_time_out_once(found: dict[str, Batches]) -> None:
    # At 4 s the state of 1 s is older than 2 s, that of 2 s is not.
    returned = [[record for record in batch if record] for batch in found["watch"]]
    assert returned == [[], [], [], [("timed out", "c", 1)], [("timed out", "b", 2)]]
    states = [dict(batch) for batch in found["watch: states"]]
    assert [set(batch) for batch in states] == [{"a", "b", "c"}] * 3 + [{"a", "b"}, {"a", "c"}]
    assert states[-1] == {"a": 5, "c": 1}


def test_a_record_refreshes_a_state_that_is_not_updated(found: dict[str, Batches]) -> None:
    assert found["look"] == [[False], [False], [False], [], [True]]


def test_get_option_of_a_missing_state_is_none(found: dict[str, Batches]) -> None:
    assert found["no state"] == [[False], [], [], [], []]
    assert found["no state: states"] == [[]] * 5


def test_state_refuses_invalid_operations(found: dict[str, Batches]) -> None:
    unset = "LookupError: State is not set: check exists() first, or use getOption()"
    timing_out = [
        "ValueError: cannot update a state that times out: it is removed when the function returns",
        "ValueError: cannot remove a state that times out: it is removed when the function returns",
    ]
    removed = [
        "ValueError: cannot update a state that was removed",
        "ValueError: cannot remove a state that was removed",
    ]
    assert found["misuse"] == [
        [[unset, "ValueError: a state cannot be None; to remove it, call remove()"]],
        [],
        [timing_out, removed],
        [],
        [],
    ]


def test_states_are_partitioned_as_the_spec_says(run_all: Any) -> None:
    by_letter = Partitioner(3, lambda key: ord(key) - ord("a"))

    def snapshots(spec: StateSpec[Any, Any, Any, Any]) -> Any:
        return lambda stream: keyed(stream).mapWithState(spec).stateSnapshots().glom()

    found = run_all(
        {
            "number": snapshots(StateSpec.function(running).numPartitions(2)),
            "function": snapshots(StateSpec.function(running).partitioner(by_letter).initialState([("c", 7)])),
        },
        [["a", "b"], ["b"]],
    )
    assert [len(batch) for batch in found["number"]] == [2, 2]
    assert found["function"] == [[[("a", 1)], [("b", 1)], [("c", 7)]], [[("a", 1)], [("b", 2)], [("c", 7)]]]


def test_mapped_records_are_shuffled_by_their_own_keys(run_all: Any) -> None:
    def by_length(key: str, value: int, state: State[int]) -> tuple[int, int]:
        return len(key), value

    spec = StateSpec.function(by_length).numPartitions(2)
    found = run_all(
        {"reduced": lambda stream: keyed(stream).mapWithState(spec).reduceByKey(operator.add, 2)},
        [["a", "b", "c", "d", "aa", "bb"], ["a", "b"]],
    )
    assert found["reduced"] == [[(1, 4), (2, 2)], [(1, 2)]]


def test_a_key_whose_function_fails_keeps_its_state_and_others_are_updated(run_outputs: Any) -> None:
    def fails_on_13(key: str, value: int, state: State[int]) -> int:
        state.update((state.getOption() or 0) + value)
        if value == 13:
            raise ValueError("unlucky")
        return state.get()

    returned: list[list[int]] = []
    states: list[dict[str, int]] = []

    def program(stream: DStream[Any]) -> None:
        mapped = stream.mapWithState(StateSpec.function(fails_on_13))
        mapped.foreachRDD(lambda rdd: returned.append(sorted(rdd.collect())))
        mapped.stateSnapshots().foreachRDD(lambda rdd: states.append(dict(rdd.collect())))

    batches: list[list[Any]] = [[("a", 1), ("b", 1)], [("a", 5), ("b", 1), ("a", 13), ("a", 5)], [("a", 1)], []]
    with pytest.raises(BatchFailedError, match="key 'a': ValueError: unlucky"):
        run_outputs(program, batches)
    assert returned == [[1, 1], [2], []]
    assert states == [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 2}]
