"""The elements of the RDDs that carry state and windows from batch to batch.

Checkpoints pickle these classes by their module and name.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from pyspark.accumulators import AccumulatorParam

from penstock.errors import StateUpdateError, shortened, shown, summary_of

if TYPE_CHECKING:
    from penstock.worker.state_store import StateVersion

# Number of errors per partition that are described; the others are counted.
_MAX_MESSAGES = 10
# Maximum length of an error message, which may contain a state or a record.
_LONGEST = 1000


@define
class PartitionErrors:
    """The errors of a state function in one partition: an element, so that the states of other keys are updated."""

    count: int = 0
    messages: list[str] = field(factory=list)

    def add(self, key: Any, error: Exception) -> None:
        """Record the error that the function raised for a key."""
        self.count += 1
        if self.count <= _MAX_MESSAGES:
            # The outermost frame is Penstock's.
            frames = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[1:]))
            self.messages.append(f"key {shown(key)}: {shortened(summary_of(error), _LONGEST)}\n{frames}")

    @staticmethod
    def merged(partitions: list[PartitionErrors]) -> PartitionErrors:
        """The errors of several partitions."""
        messages = [message for errors in partitions for message in errors.messages]
        return PartitionErrors(sum(errors.count for errors in partitions), messages[:_MAX_MESSAGES])

    def as_exception(self) -> StateUpdateError:
        """The error that fails the batch."""
        first = self.messages[0].splitlines()[0]
        more = f"... and {self.count - len(self.messages)} more" if self.count > len(self.messages) else ""
        messages = "".join(self.messages)
        return StateUpdateError(
            f"the state of {self.count} key(s) was not updated, first that of {first}; these states are as they were "
            f"before, all others were updated\n{messages}{more}".rstrip()
        )


def raising_errors(elements: Iterable[Any]) -> Iterator[Any]:
    """Pass the elements of a state partition; raise its errors as ``StateUpdateError``."""
    for element in elements:
        if isinstance(element, PartitionErrors):
            raise element.as_exception()
        yield element


@frozen
class StatePairs:
    """A group of key-value pairs of a state partition, and the batch time at which they were computed."""

    time_ms: int
    pairs: list[tuple[Any, Any]]


@frozen
class WindowPairs(StatePairs):
    """Pairs of a window, as distinct from those of a pane with the same time."""


@frozen
class StateHandle:
    """The location and version of a partition's states in the state store."""

    home: str
    version: StateVersion


@frozen
class MappedRecords:
    """A group of records that the mapping function returned, as distinct from new pairs."""

    records: list[Any]


#: Errors by batch time and partition.
Reported = dict[tuple[int, int], PartitionErrors]


class MergeReported(AccumulatorParam[Reported]):
    """Merges the errors of several tasks; a task adds ``{(batch time, partition): errors}``."""

    def zero(self, value: Reported) -> Reported:
        return {}

    def addInPlace(self, value1: Reported, value2: Reported) -> Reported:
        value1.update(value2)
        return value1


# A group is one pickle, which must stay far below Spark's limit of 2 GB.
_PAIRS_PER_GROUP = 1_000


def grouped(
    time_ms: int, pairs: Iterable[tuple[Any, Any]], kind: type[StatePairs] = StatePairs
) -> Iterator[StatePairs]:
    """Group the pairs of a batch."""
    source = iter(pairs)
    while group := list(itertools.islice(source, _PAIRS_PER_GROUP)):
        yield kind(time_ms, group)


def to_state_pairs(time_ms: int, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[StatePairs]:
    """Partition function from the pairs of a batch to groups."""
    return grouped(time_ms, records)


def from_state_pairs(_index: int, elements: Iterable[StatePairs | PartitionErrors]) -> Iterator[tuple[Any, Any]]:
    """Partition function from groups to pairs; raises the errors of the state function."""
    return (pair for group in raising_errors(elements) for pair in group.pairs)
