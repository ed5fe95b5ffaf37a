"""``UpdateState``: ``updateStateByKey`` in one partition, which calls the update function once per key.

When the function fails, its key keeps its state, with the changes that the function has made in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen
from pyspark import Accumulator

from penstock.worker.combine import merge_by_key
from penstock.worker.state_elements import PartitionErrors, Reported, StatePairs, grouped

# Indices into a key's list of state and new values.
_STATE, _VALUES = range(2)


@frozen
class UpdateState:
    """Partition function from the previous states and new pairs to the new states, followed by the errors."""

    time_ms: int
    update: Callable[[Any, Any], Any]
    memory_limit_mb: float
    reported: Accumulator[Reported]

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[StatePairs | PartitionErrors]:
        errors = PartitionErrors()
        gathered = merge_by_key(_gather, self.memory_limit_mb, _by_key(elements))
        yield from grouped(self.time_ms, self._updated(gathered, errors))
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


def _by_key(elements: Iterable[Any]) -> Iterator[tuple[Any, list[Any]]]:
    for element in elements:
        if isinstance(element, StatePairs):
            for key, state in element.pairs:
                yield key, [state, []]
        elif not isinstance(element, PartitionErrors):
            key, value = element
            yield key, [None, [value]]


def _gather(one: list[Any], other: list[Any]) -> list[Any]:
    if one[_STATE] is None:
        one[_STATE] = other[_STATE]
    one[_VALUES].extend(other[_VALUES])
    return one
