"""``UpdateState``: the states of one partition, each looked at once.

Owns what happens when the program's function fails: the key keeps its state, and the failure travels beside the states.
A function that changes a state in place before it fails has changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

from penstock.worker.chunk import Chunk, Failures, chunks_of
from penstock.worker.functions import gathering

# Places in what a key's state and values are gathered in.
_STATE, _VALUES = range(2)


@frozen
class UpdateState:
    """Make a partition's states from those before, as chunks, and new pairs."""

    time_ms: int
    update: Callable[[Any, Any], Any]
    memory_limit_mb: float
    note: Callable[[int, int, Failures], None]

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[Chunk | Failures]:
        """The states' chunks, then what failed."""
        failures = Failures()
        gathered = gathering(_gather, self.memory_limit_mb)(index, _placed(elements))
        yield from chunks_of(self.time_ms, self._updated(gathered, failures))
        if failures.count:
            self.note(self.time_ms, index, failures)
            yield failures

    def _updated(self, gathered: Iterable[tuple[Any, list[Any]]], failures: Failures) -> Iterator[tuple[Any, Any]]:
        for key, (state, values) in gathered:
            try:
                updated = self.update(values, state)
            except Exception as error:
                failures.add(key, error)
                updated = state
            if updated is not None:
                yield key, updated


def _placed(elements: Iterable[Any]) -> Iterator[tuple[Any, list[Any]]]:
    for element in elements:
        if isinstance(element, Chunk):
            for key, state in element.pairs:
                yield key, [state, []]
        elif not isinstance(element, Failures):
            key, value = element
            yield key, [None, [value]]


def _gather(one: list[Any], other: list[Any]) -> list[Any]:
    if one[_STATE] is None:
        one[_STATE] = other[_STATE]
    one[_VALUES].extend(other[_VALUES])
    return one
