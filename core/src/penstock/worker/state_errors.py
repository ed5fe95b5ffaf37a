"""The errors of a state function in a task, and the accumulator with which a task reports them to the driver.

They also travel beside the states as a record of their own, so that the states of all other keys are updated.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field
from pyspark.accumulators import AccumulatorParam

from penstock.errors import StateUpdateError, shortened, shown, summary_of

# Errors of a partition that are described; the others are counted.
_MAX_MESSAGES = 10
# Characters of an error: a state or a record may be in its message.
_LONGEST = 1000


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
            self.messages.append(f"key {shown(key)}: {shortened(summary_of(error), _LONGEST)}\n{frames}")

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


def raising_errors(elements: Iterable[Any]) -> Iterator[Any]:
    """The elements of a partition of state, without its errors.

    Raises:
        StateUpdateError: the state function failed in this partition.
    """
    for element in elements:
        if isinstance(element, PartitionErrors):
            raise element.as_exception()
        yield element


#: By batch time and partition.
Reported = dict[tuple[int, int], PartitionErrors]


class MergeReported(AccumulatorParam[Reported]):
    """Adds the errors of several tasks; a task adds ``{(batch time, partition): errors}``."""

    def zero(self, value: Reported) -> Reported:
        """An empty dictionary: nothing is reported yet."""
        return {}

    def addInPlace(self, value1: Reported, value2: Reported) -> Reported:
        """Add the errors of the second to the first."""
        value1.update(value2)
        return value1
