"""State operators in one partition compared with dictionaries, over many batches; without Spark."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyspark.shuffle
import pytest
from attrs import define, field
from hypothesis import given, strategies as st
from tests.helpers.state_partitions import AMPLE, Pairs, by_key, distinct, moved, settled, small_worker  # noqa: F401

from penstock import State
from penstock_state import state_tasks
from penstock_state.partition_errors import PartitionErrors, Reported, StateUpdateError
from penstock_state.state_pairs import StatePairs, to_state_pairs
from penstock_state.state_tasks import (
    MappedRecords,
    MapWithState,
    StateHandle,
    UpdateState,
    select_mapped,
    select_states,
    select_updated,
)

KEYS = st.sampled_from(["a", "b", 1, 1.0, True, None, ("a", 1)])


class Noted:
    """An accumulator that collects the errors reported to the driver."""

    def __init__(self) -> None:
        self.failures: list[tuple[int, int, PartitionErrors]] = []

    def add(self, reported: Reported) -> None:
        self.failures += [(time_ms, partition, errors) for (time_ms, partition), errors in reported.items()]


NOTED: Any = Noted()


@pytest.fixture(autouse=True)
def surroundings(small_worker: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(state_tasks, "_RECORDS_PER_GROUP", 3)


def pairs_of(elements: list[Any]) -> dict[Any, Any]:
    return distinct(select_updated(0, [element for element in elements if not isinstance(element, PartitionErrors)]))


# -- updateStateByKey --


def updated(values: list[str], state: str | None) -> str | None:
    if "fail" in values:
        raise ValueError("mine")
    if "remove" in values or (not values and state == "z"):
        return None
    return (state or "") + "".join(values)


VALUES = st.sampled_from(["x", "y", "z", "fail", "remove"])
BATCHES = st.lists(st.lists(st.tuples(KEYS, VALUES), max_size=8), min_size=1, max_size=8)


def updates(batches: list[Pairs], memory_limit_mb: float) -> None:
    before: list[Any] = []
    expected: dict[Any, str] = {}
    for time_ms, pairs in enumerate(batches):
        before = moved(UpdateState(time_ms, updated, memory_limit_mb, NOTED)(0, [*before, *pairs]))
        values = by_key(pairs)
        failing = {key for key in values if "fail" in values[key]}
        for key in expected.keys() | values.keys():
            state = expected.get(key) if key in failing else updated(values.get(key, []), expected.get(key))
            expected.pop(key, None)
            if state is not None:
                expected[key] = state
        assert pairs_of(before) == expected
        failures = [element for element in before if isinstance(element, PartitionErrors)]
        assert [failure.count for failure in failures] == ([len(failing)] if failing else [])
        assert all(element.time_ms == time_ms for element in before if isinstance(element, StatePairs))


@given(BATCHES)
@settled(50)
def test_states_are_updated_in_every_batch(batches: list[Pairs]) -> None:
    updates(batches, AMPLE)


@given(BATCHES)
@settled(2)
def test_states_are_the_same_when_everything_spills(batches: list[Pairs]) -> None:
    updates(batches, 0)


def test_states_spill_above_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    spills: list[int] = []
    spill: Any = pyspark.shuffle.ExternalMerger._spill

    def counted(merger: Any) -> None:
        spills.append(1)
        spill(merger)

    monkeypatch.setattr(pyspark.shuffle.ExternalMerger, "_spill", counted)
    states = list(to_state_pairs(0, 0, [(number, [number]) for number in range(3000)]))
    pairs = [(number % 4000, -number) for number in range(12_000)]

    def gathered(values: list[int], state: list[int] | None) -> list[int]:
        return [*(state or []), *values]

    made = [pairs_of(list(UpdateState(1, gathered, limit, NOTED)(0, [*states, *pairs]))) for limit in (AMPLE, 50)]
    assert made[0] == made[1]
    assert made[0][5] == [5, -5, -4005, -8005]
    assert spills


def test_errors_of_the_state_function_name_their_keys() -> None:
    pairs = [(("key", number), "fail") for number in range(12)]
    noted: Any = Noted()
    made = list(UpdateState(1, updated, AMPLE, noted)(7, pairs))
    ((time_ms, partition, failures),) = noted.failures
    assert (time_ms, partition, failures.count) == (1, 7, 12)
    with pytest.raises(StateUpdateError) as raised:
        list(select_updated(0, made))
    message = str(raised.value)
    assert message.startswith(
        "the state function failed for 12 keys, and their states were not updated; all others were. "
        "First error: key ('key', 0): ValueError: mine\n"
    )
    assert "in updated" in message
    assert message.endswith("... and 2 more")


def test_changes_in_place_remain_when_the_state_function_fails() -> None:
    def appended(values: list[int], state: list[int]) -> list[int]:
        state.extend(values)
        if 0 in values:
            raise ValueError("a zero")
        return state

    states = to_state_pairs(0, 0, [("a", [1]), ("b", [1])])
    elements = list(UpdateState(1, appended, AMPLE, NOTED)(0, [*states, ("a", 2), ("b", 0)]))
    assert pairs_of(elements) == {"a": [1, 2], "b": [1, 0]}
    with pytest.raises(
        StateUpdateError, match=r"failed for 1 key, and its state was not updated; .*: key 'b': ValueError"
    ):
        list(select_updated(0, elements))


# -- mapWithState --

TIMEOUT_MS, REMEMBERED = 30, 4


def mapped(key: Any, value: str | None, state: State[str]) -> Any:
    if state.isTimingOut():
        if "!" in state.get():
            raise ValueError("mine")
        return ("timed out", key, state.get())
    before = state.getOption()
    if value == "remove":
        if state.exists():
            state.remove()
    elif value != "look":
        state.update((before or "") + str(value)[0])
    if value == "fail":
        raise ValueError("mine")
    return (key, value, before)


@define
class Model:
    """The same with a dictionary: key → (state, the batch that changed it)."""

    timeout_ms: int | None
    states: dict[Any, tuple[str, int]] = field(factory=dict)
    failed: set[Any] = field(factory=set)

    def batch(self, time_ms: int, pairs: Pairs) -> list[Any]:
        returned: list[Any] = []
        before, self.failed = dict(self.states), set()
        for key, value in pairs:
            if key in self.failed:
                continue
            if value == "fail":
                self.failed.add(key)
                # As it was, and not idle.
                self.states.pop(key, None)
                if key in before:
                    self.states[key] = (before[key][0], time_ms)
                continue
            state = self.states.pop(key, None)
            returned.append((key, value, state and state[0]))
            if value == "look":
                if state is not None:
                    self.states[key] = (state[0], state[1] if self.timeout_ms is None else time_ms)
            elif value != "remove":
                self.states[key] = ((state[0] if state else "") + value[0], time_ms)
        visited = {key for key, _ in pairs}
        for key, (old, changed_ms) in list(self.states.items()):
            if self.timeout_ms is not None and changed_ms < time_ms - self.timeout_ms and key not in visited:
                if "!" in old:
                    self.failed.add(key)
                    self.states[key] = (old, time_ms)
                else:
                    returned.append(("timed out", key, old))
                    del self.states[key]
        return returned

    @property
    def expected(self) -> dict[Any, str]:
        return {key: state for key, (state, _) in self.states.items()}


class Partition:
    """One partition of a program's states, batch by batch."""

    def __init__(self, home: str, timeout_ms: int | None) -> None:
        self.home = home
        self.timeout_ms = timeout_ms
        self.made: list[list[Any]] = [[]]

    def function(self, time_ms: int) -> MapWithState:
        return MapWithState(mapped, time_ms, self.timeout_ms, self.home, time_ms - REMEMBERED * 10, NOTED)

    def batch(self, time_ms: int, pairs: Pairs) -> list[Any]:
        made = moved(self.function(time_ms)(2, [*self.made[-1], *pairs]))
        self.made.append(made)
        return made

    @staticmethod
    def states(made: list[Any]) -> dict[Any, Any]:
        return distinct(select_states(2, [element for element in made if not isinstance(element, PartitionErrors)]))

    @staticmethod
    def returned(made: list[Any]) -> list[Any]:
        return list(select_mapped(2, made))


class Homes:
    """Makes directories: each example needs its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = itertools.count()

    def __call__(self) -> str:
        return str(self._path / f"home-{next(self._number)}")


@pytest.fixture
def new_home(tmp_path: Path) -> Homes:
    return Homes(tmp_path)


OPERATIONS = st.sampled_from(["x", "y", "look", "remove", "x", "y", "look"])
WITH_FAILURES = st.sampled_from(["x", "!", "look", "remove", "fail"])


def programs(operations: st.SearchStrategy[str]) -> st.SearchStrategy[list[Pairs]]:
    # Few records in many batches: there are states that time out.
    return st.lists(st.lists(st.tuples(KEYS, operations), max_size=3), min_size=10, max_size=30)


def follows(partition: Partition, model: Model, batches: list[Pairs]) -> list[dict[Any, str]]:
    """MappedRecords all batches; each version that is remembered can be read after each batch."""
    history: list[dict[Any, str]] = [{}]
    for number, pairs in enumerate(batches, 1):
        made = partition.batch(number * 10, pairs)
        returned = model.batch(number * 10, pairs)
        history.append(model.expected)
        failures = [element for element in made if isinstance(element, PartitionErrors)]
        assert sum(failure.count for failure in failures) == len(model.failed)
        if not failures:
            # Timed out states have no order; they come last.
            found, calls = partition.returned(made), sum(record[0] != "timed out" for record in returned)
            assert found[:calls] == returned[:calls]
            assert len(found) == len(returned)
            assert all(record in found for record in returned)
        for old in range(max(number - REMEMBERED, 1), number + 1):
            assert partition.states(partition.made[old]) == history[old]
    return history


@pytest.mark.parametrize("timeout_ms", [None, TIMEOUT_MS], ids=["no timeout", "timeout"])
@given(batches=programs(OPERATIONS))
@settled(15)
def test_mapped_states_equal_a_dictionary(new_home: Homes, timeout_ms: int | None, batches: list[Pairs]) -> None:
    follows(Partition(new_home(), timeout_ms), Model(timeout_ms), batches)


@pytest.mark.parametrize("timeout_ms", [None, TIMEOUT_MS], ids=["no timeout", "timeout"])
@given(batches=programs(WITH_FAILURES))
@settled(15)
def test_failed_call_leaves_the_state_unchanged(new_home: Homes, timeout_ms: int | None, batches: list[Pairs]) -> None:
    follows(Partition(new_home(), timeout_ms), Model(timeout_ms), batches)


@given(batches=programs(OPERATIONS), data=st.data())
@settled(10)
def test_repeated_batch_computes_the_same_states(new_home: Homes, batches: list[Pairs], data: st.DataObject) -> None:
    partition = Partition(new_home(), TIMEOUT_MS)
    history = follows(partition, Model(TIMEOUT_MS), batches)
    number = data.draw(st.integers(max(len(batches) - REMEMBERED + 1, 1), len(batches)))
    again = moved(partition.function(number * 10)(2, [*partition.made[number - 1], *batches[number - 1]]))
    assert again == partition.made[number]
    for old in range(max(len(batches) - REMEMBERED, 1), len(batches) + 1):
        assert partition.states(partition.made[old]) == history[old]


def test_initial_states_are_used_before_the_first_records(new_home: Homes) -> None:
    partition = Partition(new_home(), TIMEOUT_MS)
    partition.made[0] = list(to_state_pairs(0, 2, [("a", "A"), ("b", "B"), ("c", "C")]))
    made = partition.batch(10, [("a", "x"), ("b", "remove"), ("d", "y")])
    assert partition.returned(made) == [("a", "x", "A"), ("b", "remove", "B"), ("d", "y", None)]
    assert partition.states(made) == {"a": "Ax", "c": "C", "d": "y"}
    # As old as the first batch.
    assert [partition.returned(partition.batch(time_ms, [])) for time_ms in (20, 30, 40)] == [[], [], []]
    assert sorted(partition.returned(partition.batch(50, []))) == [
        ("timed out", "a", "Ax"),
        ("timed out", "c", "C"),
        ("timed out", "d", "y"),
    ]


def test_failed_call_leaves_an_initial_state_unchanged(new_home: Homes) -> None:
    partition = Partition(new_home(), None)
    partition.made[0] = list(to_state_pairs(0, 2, [("a", "A")]))
    made = partition.batch(10, [("a", "x"), ("a", "fail"), ("a", "x"), ("b", "fail"), ("c", "x")])
    assert partition.states(made) == {"a": "A", "c": "x"}
    with pytest.raises(StateUpdateError, match=r"failed for 2 keys, .*First error: key 'a': ValueError: mine"):
        partition.returned(made)
    with pytest.raises(StateUpdateError):
        list(select_states(2, made))


def test_state_times_out_after_the_timeout_and_not_at_it(new_home: Homes) -> None:
    partition = Partition(new_home(), TIMEOUT_MS)
    partition.batch(10, [("a", "x")])
    assert partition.returned(partition.batch(10 + TIMEOUT_MS, [])) == []
    assert partition.returned(partition.batch(11 + TIMEOUT_MS, [])) == [("timed out", "a", "x")]
    assert partition.returned(partition.batch(12 + TIMEOUT_MS, [])) == []


def test_state_whose_timeout_call_failed_times_out_later(new_home: Homes) -> None:
    partition = Partition(new_home(), TIMEOUT_MS)
    for time_ms, pairs in ((10, [("a", "x")]), (20, []), (30, []), (40, [])):
        partition.batch(time_ms, pairs)
    assert partition.states(partition.batch(50, [("a", "fail")])) == {"a": "x"}
    later = [partition.returned(partition.batch(time_ms, [])) for time_ms in range(60, 110, 10)]
    assert [record for returned in later for record in returned] == [("timed out", "a", "x")]


def test_mapping_function_with_time_gets_it_and_may_drop_records(new_home: Homes) -> None:
    time = datetime(2026, 1, 2)

    def of_the_time(now: datetime, key: str, value: int, state: State[int]) -> Any:
        state.update(value)
        return (now, key) if value else None

    made = list(MapWithState(of_the_time, 10, None, new_home(), 0, NOTED, time)(0, [("a", 1), ("b", 0)]))
    assert list(select_mapped(0, made)) == [(time, "a")]


def test_results_that_resemble_internal_records_are_records(new_home: Homes) -> None:
    # What is returned travels beside the states, and is not taken for new pairs in the next batch.
    partition = Partition(new_home(), None)
    first = partition.batch(10, [("a", "x"), ("b", "x")])
    assert [type(element) for element in first if not isinstance(element, MappedRecords)] == [StateHandle]
    assert partition.returned(partition.batch(20, [])) == []


def test_cost_of_a_batch_is_independent_of_the_number_of_keys(new_home: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition(new_home(), None)
    partition.made[0] = list(to_state_pairs(0, 2, [(number, "x") for number in range(2000)]))
    partition.batch(10, [])
    loaded: list[bytes] = []
    load: Callable[[bytes], Any] = pickle.loads

    def counted(data: bytes) -> Any:
        loaded.append(data)
        return load(data)

    monkeypatch.setattr(pickle, "loads", counted)
    made = list(partition.function(20)(2, [*partition.made[-1], (5, "y"), (7, "z")]))
    assert any(isinstance(element, StateHandle) for element in made)
    assert len(loaded) < 20
