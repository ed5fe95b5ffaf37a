"""``PartitionErrors``: the errors of a state function in one partition, as reported to the driver.

Checkpoints pickle the class by its module and name.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field
from pyspark.accumulators import AccumulatorParam

from penstock import PenstockError
from penstock.spi import shortened, shown, summary_of

# Number of errors per partition that are described; the others are counted.
_MAX_MESSAGES = 10
# Maximum length of an error message, which may contain a state or a record.
_LONGEST = 1000


class StateUpdateError(PenstockError):
    """A state function failed for some keys. Their states were not updated; all other states were."""


@define
class PartitionErrors:
    """The errors of a state function in one partition.

    Tasks return them as an element instead of raising them, so that other keys' states are updated.
    """

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
        keys = "1 key" if self.count == 1 else f"{self.count} keys"
        whose = "its state was" if self.count == 1 else "their states were"
        return StateUpdateError(
            f"the state function failed for {keys}, and {whose} not updated; all others were. First error: {first}\n"
            f"{messages}{more}".rstrip()
        )


def raising_errors(elements: Iterable[Any]) -> Iterator[Any]:
    """Pass the elements of a state partition; raise its errors as ``StateUpdateError``."""
    for element in elements:
        if isinstance(element, PartitionErrors):
            raise element.as_exception()
        yield element


#: Errors by batch time and partition.
Reported = dict[tuple[int, int], PartitionErrors]


class MergeReported(AccumulatorParam[Reported]):
    """Merges the errors of several tasks; a task adds ``{(batch time, partition): errors}``."""

    def zero(self, value: Reported) -> Reported:
        return {}

    def addInPlace(self, value1: Reported, value2: Reported) -> Reported:
        value1.update(value2)
        return value1
