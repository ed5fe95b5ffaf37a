"""The partition functions of ``updateStateByKey`` and ``mapWithState``, and the elements of their RDDs.

Checkpoints pickle the classes of elements by their module and name.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from attrs import define, evolve, field, frozen
from pyspark import Accumulator

from penstock.spi import merge_by_key, pickle_value
from penstock_state.key_state import MISSING, KeyState
from penstock_state.partition_errors import PartitionErrors, Reported, raising_errors
from penstock_state.state_pairs import StatePairs, from_state_pairs, to_state_pairs
from penstock_state.state_store import StateStore, StateVersion, StoredState

# Indices into a key's list of state and new values.
_STATE, _VALUES = range(2)


@frozen
class UpdateState:
    """Partition function from the previous states and new pairs to the new states, followed by the errors.

    If the function fails for a key, the key keeps its previous state. Changes that the function made in place are not
    undone.
    """

    time_ms: int
    update: Callable[[Any, Any], Any]
    memory_limit_mb: float
    reported: Accumulator[Reported]

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[StatePairs | PartitionErrors]:
        errors = PartitionErrors()
        gathered = merge_by_key(_gather_state, self.memory_limit_mb, _state_by_key(elements))
        yield from to_state_pairs(self.time_ms, index, self._updated(gathered, errors))
        if errors.count:
            self.reported.add({(self.time_ms, index): errors})
            yield errors

    def _updated(self, gathered: Iterable[tuple[Any, list[Any]]], errors: PartitionErrors) -> Iterator[tuple[Any, Any]]:
        for key, (state, values) in gathered:
            try:
                updated = self.update(values, state)
            except Exception as error:
                errors.add(key, error)
                updated = state
            if updated is not None:
                yield key, updated


def _state_by_key(elements: Iterable[Any]) -> Iterator[tuple[Any, list[Any]]]:
    for element in elements:
        if isinstance(element, StatePairs):
            for key, state in element.pairs:
                yield key, [state, []]
        elif not isinstance(element, PartitionErrors):
            key, value = element
            yield key, [None, [value]]


def _gather_state(one: list[Any], other: list[Any]) -> list[Any]:
    if one[_STATE] is None:
        one[_STATE] = other[_STATE]
    one[_VALUES].extend(other[_VALUES])
    return one


def select_updated(index: int, elements: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Partition function that selects keys and states; raises the errors of the update function."""
    return from_state_pairs(index, raising_errors(elements))


@frozen
class StateHandle:
    """The location and version of a partition's states in the state store."""

    home: str
    version: StateVersion


@frozen
class MappedRecords:
    """A group of records that the mapping function returned, as distinct from new pairs."""

    records: list[Any]


# Records per group: one look-up of states, and one element of results.
_RECORDS_PER_GROUP = 10_000


def relocate_states(home: str, _index: int, elements: Iterable[Any]) -> Iterator[Any]:
    """Partition function from handles to handles of the same states in another location."""
    return (evolve(element, home=home) if isinstance(element, StateHandle) else element for element in elements)


def select_mapped(_index: int, elements: Iterable[Any]) -> Iterator[Any]:
    """Partition function that selects the records of the mapping function; raises its errors."""
    mapped = (element for element in raising_errors(elements) if isinstance(element, MappedRecords))
    return (record for group in mapped for record in group.records)


def select_states(index: int, elements: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Partition function that reads all keys and their states; raises the errors of the mapping function."""
    for element in raising_errors(elements):
        if isinstance(element, StateHandle):
            yield from StateStore.of(element.home, index).snapshot(element.version)


@frozen
class MapWithState:
    """Partition function from new pairs to the mapped records, the handle of the new states, and the errors."""

    update: Callable[..., Any]
    time_ms: int
    # Age at which states time out; ``None`` for never.
    timeout_ms: int | None
    home: str
    # No batch needs older versions of the states.
    horizon_ms: int
    reported: Accumulator[Reported]
    # If the function takes it.
    time: datetime | None = None

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[Any]:
        partition = _Partition(self, StateStore.of(self.home, index))
        pairs = partition.new_pairs(elements)
        while group := list(itertools.islice(pairs, _RECORDS_PER_GROUP)):
            yield MappedRecords(list(partition.map(group)))
        yield MappedRecords(list(partition.time_out()))
        yield StateHandle(self.home, partition.commit())
        if partition.errors.count:
            self.reported.add({(self.time_ms, index): partition.errors})
            yield partition.errors


@define
class _Entry:
    """The state of one key during a batch."""

    key: Any
    stored: StoredState | None
    #: ``MISSING`` if the key has none.
    state: Any = MISSING
    is_changed: bool = False
    #: Whether the key got a record or timed out in this batch.
    is_visited: bool = False
    has_failed: bool = False

    def read(self) -> None:
        """Reset the state to the stored one."""
        state = None if self.stored is None else self.stored.state
        self.state = MISSING if state is None else pickle.loads(state)


@define
class _Partition:
    spec: MapWithState
    store: StateStore
    version: StateVersion = field(factory=lambda: StateVersion(-1))
    entries: dict[Any, _Entry] = field(factory=dict)
    errors: PartitionErrors = field(factory=PartitionErrors)

    def new_pairs(self, elements: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Take over the previous states, which come first; yield the new pairs."""
        for element in elements:
            if isinstance(element, StateHandle):
                self.version = element.version
            elif isinstance(element, StatePairs):
                for key, state in element.pairs:
                    self._add_initial(key, state)
            elif not isinstance(element, (MappedRecords, PartitionErrors)):
                yield element

    def map(self, pairs: list[tuple[Any, Any]]) -> Iterator[Any]:
        self._load({key for key, _value in pairs})
        for key, value in pairs:
            yield from self._call(self.entries[key], value, timing_out=False)

    def time_out(self) -> Iterator[Any]:
        """Call the mapping function for the states that time out, and remove them."""
        if self.spec.timeout_ms is None:
            return
        threshold_ms = self.spec.time_ms - self.spec.timeout_ms
        old = self.store.older_than(self.version, threshold_ms)
        while group := set(itertools.islice(old, _RECORDS_PER_GROUP)):
            self._load(group)
            for entry in map(self.entries.__getitem__, group):
                is_old = entry.stored is not None and entry.stored.updated_ms < threshold_ms
                if is_old and entry.state is not MISSING and not entry.is_visited:
                    yield from self._call(entry, None, timing_out=True)
        self.version = evolve(self.version, timed_out_ms=threshold_ms)

    def commit(self) -> StateVersion:
        version = self.store.commit(self.version, self.spec.time_ms, self._changes())
        return self.store.retire(version, self.spec.horizon_ms)

    def _changes(self) -> Iterator[tuple[Any, StoredState]]:
        for key, entry in self.entries.items():
            is_set = entry.state is not MISSING
            if entry.is_changed and (is_set or entry.stored is not None):
                pickled_key = pickle_value(key) if entry.stored is None else entry.stored.key
                yield key, StoredState(pickled_key, pickle_value(entry.state) if is_set else None, self.spec.time_ms)

    def _add_initial(self, key: Any, state: Any) -> None:
        # As if the state were stored, so that a failing call leaves it unchanged.
        stored = StoredState(pickle_value(key), pickle_value(state), self.spec.time_ms)
        self.entries[key] = _Entry(key, stored, state, is_changed=True)

    def _load(self, keys: set[Any]) -> None:
        new = [key for key in keys if key not in self.entries]
        stored = self.store.find(self.version, new)
        for key in new:
            self.entries[key] = _Entry(key, stored.get(key))
            self.entries[key].read()

    def _call(self, entry: _Entry, value: Any, *, timing_out: bool) -> Iterator[Any]:
        entry.is_visited = True
        if entry.has_failed:
            return
        state: KeyState[Any] = KeyState(entry.state, timing_out=timing_out)
        arguments = (entry.key, value, state) if self.spec.time is None else (self.spec.time, entry.key, value, state)
        try:
            result = self.spec.update(*arguments)
        except Exception as error:
            self.errors.add(entry.key, error)
            entry.read()
            # Store the state again to restart its timeout. Otherwise later batches would skip it, because they look
            # only for states updated since `timed_out_ms`.
            entry.has_failed = True
            entry.is_changed = self.spec.timeout_ms is not None or entry.is_changed
            return
        if timing_out or state.is_removed:
            entry.state = MISSING
            entry.is_changed = True
        elif state.is_updated:
            entry.state = state.value
            entry.is_changed = True
        elif entry.state is not MISSING and self.spec.timeout_ms is not None:
            entry.is_changed = True  # any record postpones the timeout
        if self.spec.time is None or result is not None:
            yield result
