"""``MapWithState``: the program's function, called for each new pair of one partition, and what it does to the states.

Owns the rules of the calls and what travels to the next batch: where the states are, and what the function returned.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from attrs import define, evolve, field, frozen

from penstock.graph.state_spec import State
from penstock.worker.chunk import Chunk, Failures
from penstock.worker.state_store import Found, StateStore, StateVersion, pickled

# Records whose states are looked up at once, and whose results travel together.
_RECORDS_PER_RUN = 10_000


@frozen
class Kept:
    """A partition's states: where they are.

    Attributes:
        home: directory of the states of all partitions.
        version: of this partition's.
    """

    home: str
    version: StateVersion


@frozen
class Moved:
    """From a partition to the same with its states elsewhere."""

    home: str

    def __call__(self, _index: int, elements: Iterable[Any]) -> Iterator[Any]:
        """One for one."""
        return (evolve(element, home=self.home) if isinstance(element, Kept) else element for element in elements)


@frozen
class Run:
    """Some of what the function returned: in a form of its own, lest it be taken for new pairs in the next batch."""

    records: list[Any]


@frozen
class Returned:
    """From a partition to what the function returned."""

    def __call__(self, _index: int, elements: Iterable[Any]) -> Iterator[Any]:
        """All of it; raises what it failed on."""
        for element in elements:
            if isinstance(element, Failures):
                raise element.as_error()
            if isinstance(element, Run):
                yield from element.records


@frozen
class Snapshot:
    """From a partition to its keys and states."""

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """All of them; raises what the function failed on."""
        for element in elements:
            if isinstance(element, Failures):
                raise element.as_error()
            if isinstance(element, Kept):
                yield from StateStore.of(element.home, index).snapshot(element.version)


@frozen
class MapWithState:
    """Call the program's function for the new pairs of a partition, and keep what it does to the states.

    Attributes:
        update: the program's function.
        time: of the batch, when the function takes it.
        time_ms: of the batch.
        timeout_ms: a state older than that times out, ``None`` for never.
        home: directory of the states of all partitions.
        horizon_ms: no version older than that is needed any more.
        note: tells the driver what failed.
    """

    update: Callable[..., Any]
    time: datetime | None
    time_ms: int
    timeout_ms: int | None
    home: str
    horizon_ms: int
    note: Callable[[int, int, Failures], None]

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[Any]:
        """What the function returned, where the states are now, what it failed on."""
        work = _Work(self, StateStore.of(self.home, index))
        records = work.records(elements)
        while run := list(itertools.islice(records, _RECORDS_PER_RUN)):
            yield Run(list(work.map(run)))
        yield Run(list(work.time_out()))
        yield Kept(self.home, work.commit())
        if work.failures.count:
            self.note(self.time_ms, index, work.failures)
            yield work.failures


@define
class _Entry:
    """A key's state while a batch is at work."""

    key: Any
    found: Found | None
    state: Any = None
    is_set: bool = False
    is_changed: bool = False
    #: It got a record or timed out in this batch.
    is_visited: bool = False
    has_failed: bool = False

    def read(self) -> None:
        """Take the state as it was stored."""
        stored = None if self.found is None else self.found.state
        self.state, self.is_set = (None, False) if stored is None else (pickle.loads(stored), True)


@define
class _Work:
    """One partition of one batch."""

    spec: MapWithState
    store: StateStore
    version: StateVersion = field(factory=lambda: StateVersion(-1))
    entries: dict[Any, _Entry] = field(factory=dict)
    failures: Failures = field(factory=Failures)

    def records(self, elements: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Read what is there from before; give the new pairs, which come behind it."""
        for element in elements:
            if isinstance(element, Kept):
                self.version = element.version
            elif isinstance(element, Chunk):
                for key, state in element.pairs:
                    self._begin_with(key, state)
            elif not isinstance(element, (Run, Failures)):
                yield element

    def map(self, pairs: list[tuple[Any, Any]]) -> Iterator[Any]:
        """Call the function for pairs, in their order."""
        self._load({key for key, _value in pairs})
        for key, value in pairs:
            yield from self._call(self.entries[key], value, timing_out=False)

    def time_out(self) -> Iterator[Any]:
        """Call the function for states that got nothing for too long, and remove them."""
        if self.spec.timeout_ms is None:
            return
        threshold_ms = self.spec.time_ms - self.spec.timeout_ms
        old = self.store.older_than(self.version, threshold_ms)
        while run := set(itertools.islice(old, _RECORDS_PER_RUN)):
            self._load(run)
            for entry in map(self.entries.__getitem__, run):
                is_old = entry.found is not None and entry.found.updated_ms < threshold_ms
                if is_old and entry.is_set and not entry.is_visited:
                    yield from self._call(entry, None, timing_out=True)
        self.version = evolve(self.version, timed_out_ms=threshold_ms)

    def commit(self) -> StateVersion:
        """Store what has changed."""
        version = self.store.commit(self.version, self.spec.time_ms, self._changes())
        return self.store.retire(version, self.spec.horizon_ms)

    def _changes(self) -> Iterator[tuple[Any, Found]]:
        for key, entry in self.entries.items():
            if entry.is_changed and (entry.is_set or entry.found is not None):
                stored = pickled(key) if entry.found is None else entry.found.key
                yield key, Found(stored, pickled(entry.state) if entry.is_set else None, self.spec.time_ms)

    def _begin_with(self, key: Any, state: Any) -> None:
        # As if it were stored: a call that fails must find it as it was.
        found = Found(pickled(key), pickled(state), self.spec.time_ms)
        self.entries[key] = _Entry(key, found, state, is_set=True, is_changed=True)

    def _load(self, keys: set[Any]) -> None:
        new = [key for key in keys if key not in self.entries]
        found = self.store.find(self.version, new)
        for key in new:
            self.entries[key] = _Entry(key, found.get(key))
            self.entries[key].read()

    def _call(self, entry: _Entry, value: Any, *, timing_out: bool) -> Iterator[Any]:
        entry.is_visited = True
        if entry.has_failed:
            return
        state: State[Any] = State(entry.state, timing_out=timing_out) if entry.is_set else State()
        arguments = (entry.key, value, state) if self.spec.time is None else (self.spec.time, entry.key, value, state)
        try:
            result = self.spec.update(*arguments)
        except Exception as error:
            self.failures.add(entry.key, error)
            entry.read()
            # One that should time out is to be asked again, later: where states do, it is stored as if it were new.
            entry.has_failed, entry.is_changed = True, self.spec.timeout_ms is not None or entry.is_changed
            return
        if timing_out or state.is_removed:
            entry.state, entry.is_set, entry.is_changed = None, False, True
        elif state.is_updated:
            entry.state, entry.is_set, entry.is_changed = state.get(), True, True
        elif entry.is_set and self.spec.timeout_ms is not None:
            entry.is_changed = True  # any record is a sign of life
        if self.spec.time is None or result is not None:
            yield result
