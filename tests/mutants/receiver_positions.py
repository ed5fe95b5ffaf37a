"""Mutants of the receiver checks RC-35 to RC-44."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pyarrow as pa
from tests.mutants.receiver_references import (
    ArrowReceiver,
    Entries,
    NumberArrowReceiver,
    NumberFeeder,
    PartitionedReceiver,
    ReplayableReceiver,
)
from tests.mutants.references import MemoryReceiver, memory_mutant

from penstock_testing import Capabilities, MemoryFeeder, MemorySource
from penstock_testing.memory_source import MemoryConnection


class GivesNoPosition(ReplayableReceiver):
    """Forgets the metadata."""

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {}


class GivesTuples(ReplayableReceiver):
    """Gives a value that JSON changes."""

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {"offset": after, "range": (after - 1, after)}


class GoesBack(ReplayableReceiver):
    """Gives a number that decreases."""

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {"offset": after, "remaining": 1000 - after}


class DeletesWhatIsStored(ReplayableReceiver):
    """Makes the source forget stored records."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        super().take(connection, entries)
        for position, _ in entries:
            connection.acknowledge(position)


class SavesReadPosition(ReplayableReceiver):
    """Stores the records of a read one by one, each with the position after the read."""

    at_most = 100

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        after = entries[-1][0] + 1
        for _, record in entries:
            self.store_all([record], {"offset": after})
        self.offset = after


class MovesEverySecond(ReplayableReceiver):
    """Moves its position with every second record."""

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {"offset": after // 2 * 2}


class AddsOffsets(ReplayableReceiver):
    """Each time that it starts from a position, it moves it by one."""

    starts: ClassVar[Counter[tuple[str, int]]] = Counter()

    def receive(self) -> None:
        MemorySource.find(self.address).connect().close()
        key = (self.address, self.offset)
        self.offset += self.starts[key]
        self.starts[key] += 1
        super().receive()


class WaitsAtTheEnd(MemoryReceiver):
    """Waits for more after the end."""

    def receive(self) -> None:
        self.connection = connection = MemorySource.find(self.address).connect()
        while not self.isStopped():
            if entries := connection.read():
                self.take(connection, entries)
            else:
                self.wait(0.01)


class FailsAtTheEnd(MemoryReceiver):
    """Takes the end for an error."""

    def stop(self, message: str, error: BaseException | None = None) -> None:
        super().stop(message, EOFError("no more data"))


class ReadsEverything(PartitionedReceiver):
    """Each instance reads all partitions."""

    def mine(self) -> list[int]:
        return list(range(self.partitions))


class LeavesPartitions(PartitionedReceiver):
    """Each of several instances reads one partition, though there are more partitions."""

    def mine(self) -> list[int]:
        return [self.index] if self.count > 1 else super().mine()


class SavesByInstance(PartitionedReceiver):
    """Saves one offset for each instance, not for each partition."""

    def __init__(
        self, feeder: MemoryFeeder, position: dict[str, Any] | None = None, index: int = 0, count: int = 1
    ) -> None:
        super().__init__(feeder, None, index, count)
        self.offset = (position or {}).get(f"instance {index}", 0)

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, record in entries:
            if position % self.partitions in self.mine():
                self.store_all([record], {f"instance {self.index}": position + 1})
            self.offset = position + 1


class StoresFloats(NumberArrowReceiver):
    """Stores whole numbers as floats."""

    def column(self, records: list[Any]) -> pa.Array:
        return pa.array(records, pa.float64())


class StoresRows(MemoryReceiver):
    """Declares columnar batches and stores none."""


class InfersTypes(ArrowReceiver):
    """Chooses the type of the column by the batch."""

    def column(self, records: list[Any]) -> pa.Array:
        is_large = any(len(record) > 1000 for record in records)
        return pa.array(records, pa.large_string() if is_large else pa.string())


_REPLAYABLE = Capabilities(replayable=True, bounded=True)
_PARTITIONED = Capabilities(replayable=True, bounded=True, partitioned=True)
_ARROW = Capabilities(acknowledged=True, bounded=True, arrow=True)
_SEVERAL = "it runs several instances, too"


MUTANTS = [
    memory_mutant(
        "RC-35",
        GivesNoPosition,
        "block 0 has no metadata",
        1.0,
        "RC-36",
        "RC-37",
        "RC-38",
        "RC-39",
        because="without a position no receiver continues",
        capabilities=_REPLAYABLE,
    ),
    memory_mutant("RC-35", GivesTuples, "after JSON", capabilities=_REPLAYABLE),
    memory_mutant("RC-35", GoesBack, "'remaining' changes from 999 to 998", capabilities=_REPLAYABLE),
    memory_mutant(
        "RC-36",
        DeletesWhatIsStored,
        "read again from {'offset': 1}: missing",
        0.1,
        "PK-14",
        "RC-39",
        because="the source forgets acknowledged records, and Capabilities.acknowledged is not set",
        capabilities=_REPLAYABLE,
    ),
    memory_mutant("RC-37", SavesReadPosition, "continues after 1 of 5 records: missing", 0.1, capabilities=_REPLAYABLE),
    memory_mutant(
        "RC-38",
        MovesEverySecond,
        "does not change the position",
        1.0,
        "RC-36",
        "RC-37",
        "RC-39",
        because="a receiver at the old position stores the second record again",
        capabilities=_REPLAYABLE,
    ),
    memory_mutant(
        "RC-39", AddsOffsets, "the third receiver from {'offset': 1}: missing", 0.1, capabilities=_REPLAYABLE
    ),
    memory_mutant("RC-40", WaitsAtTheEnd, "the source has ended, and the receiver's thread 'WaitsAtTheEnd-0'", 0.1),
    memory_mutant("RC-40", FailsAtTheEnd, "the receiver reported the end of the source as an error"),
    memory_mutant(
        "RC-41",
        ReadsEverything,
        "twice or unexpectedly ['0-",
        0.1,
        "RC-42",
        because=_SEVERAL,
        capabilities=_PARTITIONED,
    ),
    memory_mutant(
        "RC-41",
        LeavesPartitions,
        "3 instances: missing ['",
        0.1,
        "RC-42",
        because=_SEVERAL,
        capabilities=_PARTITIONED,
    ),
    memory_mutant("RC-42", SavesByInstance, "3 instances: ", 0.1, capabilities=_PARTITIONED),
    memory_mutant(
        "RC-43",
        StoresFloats,
        "read as ['float",
        1.0,
        "RC-10",
        "RC-12",
        because="all three compare the types of records, too",
        feeder=NumberFeeder,
        capabilities=_ARROW,
    ),
    memory_mutant("RC-43", StoresRows, "no block comes from store_arrow", capabilities=_ARROW),
    memory_mutant("RC-44", InfersTypes, "has the schema value: large_string", capabilities=_ARROW),
]
