"""``StatePairs``: the form in which state and panes of windows travel from batch to batch, and the errors beside them.

The pairs of a partition are stored in groups, each with the batch time that it belongs to. The errors of a state
function travel as a record of their own, so that the states of all other keys are updated.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from penstock.errors import StateUpdateError, text_of

# Each group is one pickle, which must stay far below Spark's limit of 2 GB.
_PAIRS_PER_GROUP = 1_000
# Errors of a partition that are described; the others are counted.
_MAX_MESSAGES = 10


@frozen
class StatePairs:
    """Some key-value pairs of a partition of state.

    Attributes:
        time_ms: of the batch that computed them.
        pairs: key and value; a key occurs once in each batch.
    """

    time_ms: int
    pairs: list[tuple[Any, Any]]


@define
class PartitionErrors:
    """The errors of a state function in one partition.

    Attributes:
        count: number of keys for which it failed.
        messages: key, error and traceback of the first ones.
    """

    count: int = 0
    messages: list[str] = field(factory=list)

    def add(self, key: Any, error: Exception) -> None:
        """Record the error that the function raised for a key."""
        self.count += 1
        if self.count <= _MAX_MESSAGES:
            # Without the outermost frame, which is Penstock's.
            frames = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[1:]))
            self.messages.append(f"key {key!r}: {type(error).__name__}: {text_of(error)}\n{frames}")

    @staticmethod
    def merged(several: list[PartitionErrors]) -> PartitionErrors:
        """The errors of several partitions."""
        messages = [message for errors in several for message in errors.messages]
        return PartitionErrors(sum(errors.count for errors in several), messages[:_MAX_MESSAGES])

    def as_exception(self) -> StateUpdateError:
        """The error with which the batch fails."""
        first = self.messages[0].splitlines()[0]
        more = f"... and {self.count - len(self.messages)} more" if self.count > len(self.messages) else ""
        messages = "".join(self.messages)
        return StateUpdateError(
            f"the state of {self.count} key(s) was not updated, first that of {first}; these states are as they were "
            f"before, all others were updated\n{messages}{more}".rstrip()
        )


def grouped(
    time_ms: int, pairs: Iterable[tuple[Any, Any]], kind: type[StatePairs] = StatePairs
) -> Iterator[StatePairs]:
    """Put the pairs of a batch into groups of one kind."""
    source = iter(pairs)
    while group := list(itertools.islice(source, _PAIRS_PER_GROUP)):
        yield kind(time_ms, group)


@frozen
class ToStatePairs:
    """A partition function: from the pairs of a batch to groups."""

    time_ms: int

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[StatePairs]:
        """The groups."""
        return grouped(self.time_ms, records)


@frozen
class FromStatePairs:
    """A partition function: from groups to their pairs; raises the errors of the state function."""

    def __call__(self, _index: int, elements: Iterable[StatePairs | PartitionErrors]) -> Iterator[tuple[Any, Any]]:
        """The pairs of all groups."""
        for element in elements:
            if isinstance(element, PartitionErrors):
                raise element.as_exception()
            yield from element.pairs
