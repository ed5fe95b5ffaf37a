"""``StatePairs``: the form in which states and panes of windows travel from batch to batch.

The pairs of a partition are stored in groups, each with the batch time that it belongs to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from penstock.worker.state_errors import PartitionErrors, raising_errors

# Each group is one pickle, which must stay far below Spark's limit of 2 GB.
_PAIRS_PER_GROUP = 1_000


@frozen
class StatePairs:
    """Some key-value pairs of a partition of state.

    Attributes:
        time_ms: batch time at which they were computed.
        pairs: key and value; a key occurs once in each batch.
    """

    time_ms: int
    pairs: list[tuple[Any, Any]]


def grouped(
    time_ms: int, pairs: Iterable[tuple[Any, Any]], kind: type[StatePairs] = StatePairs
) -> Iterator[StatePairs]:
    """Put the pairs of a batch into groups of one kind."""
    source = iter(pairs)
    while group := list(itertools.islice(source, _PAIRS_PER_GROUP)):
        yield kind(time_ms, group)


def to_state_pairs(time_ms: int, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[StatePairs]:
    """A partition function: from the pairs of a batch to groups."""
    return grouped(time_ms, records)


def from_state_pairs(_index: int, elements: Iterable[StatePairs | PartitionErrors]) -> Iterator[tuple[Any, Any]]:
    """A partition function: from groups to their pairs; raises the errors of the state function."""
    return (pair for group in raising_errors(elements) for pair in group.pairs)
