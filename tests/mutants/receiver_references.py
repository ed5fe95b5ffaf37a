"""Reference receivers beyond ``MemoryReceiver``, one for each capability: they pass every check."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver

from penstock import Receiver
from penstock_testing import Capabilities, Feeder, MemoryFeeder, MemorySource
from penstock_testing.memory_source import MemoryConnection

Entries = list[tuple[int, Any]]


class OnStoredReceiver(MemoryReceiver):
    """Stores single records; acknowledges each when it is stored."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, record in entries:
            self.store(record, partial(self.stored, connection, position))

    def stored(self, connection: MemoryConnection, position: int, error: BaseException | None) -> None:
        if error is None:
            connection.acknowledge(position)


class ReturningReceiver(MemoryReceiver):
    """Ends by returning from ``receive``, without a stop."""

    def receive(self) -> None:
        self.connection = connection = MemorySource.find(self.address).connect()
        while not self.isStopped() and (entries := connection.read()):
            self.take(connection, entries)


class ReplayableReceiver(MemoryReceiver):
    """Gives each block the position after it and its lag, and continues from a position. Acknowledges nothing."""

    def __init__(self, feeder: MemoryFeeder, position: Mapping[str, Any] | None = None) -> None:
        super().__init__(feeder)
        # Of the first record to read, also after a restart in the same process.
        self.offset: int = (position or {}).get("offset", 0)

    def receive(self) -> None:
        self.connection = connection = MemorySource.find(self.address).connect(self.offset)
        while not self.isStopped() and (entries := connection.read(self.at_most)):
            self.take(connection, entries)
        if not self.isStopped():
            self.stop("the source has ended")

    # One record: a block that the rate limit or the buffer divides would have the position after all of it.
    at_most = 1

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        after = entries[-1][0] + 1
        self.store_all([record for _, record in entries], self.metadata(connection, after))
        self.offset = after

    def metadata(self, connection: MemoryConnection, after: int) -> dict[str, Any]:
        return {"offset": after, "lag": connection.lag}


class PartitionedReceiver(ReplayableReceiver):
    """Reads its share of four partitions: a record's partition is its position modulo four."""

    partitions = 4

    def __init__(
        self, feeder: MemoryFeeder, position: Mapping[str, Any] | None = None, index: int = 0, count: int = 1
    ) -> None:
        super().__init__(feeder)
        self.index = index
        self.count = count
        self.offsets: dict[str, int] = {
            str(partition): (position or {}).get(str(partition), 0) for partition in self.mine()
        }
        self.offset = min(self.offsets.values(), default=0)

    def mine(self) -> list[int]:
        return [partition for partition in range(self.partitions) if partition % self.count == self.index]

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, record in entries:
            partition = str(position % self.partitions)
            if partition in self.offsets and position >= self.offsets[partition]:
                self.store_all([record], {partition: position + 1})
                self.offsets[partition] = position + 1
        self.offset = min(self.offsets.values(), default=0)


class ArrowReceiver(MemoryReceiver):
    """Stores columnar batches."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        self.store_arrow(pa.table({"value": self.column([record for _, record in entries])}))
        for position, _ in entries:
            connection.acknowledge(position)

    def column(self, records: list[Any]) -> pa.Array:
        return pa.array(records, pa.string())


class NumberFeeder(MemoryFeeder):
    """Feeds whole numbers."""

    def sample(self, rng: Any, count: int) -> list[int]:
        start = rng.randrange(10**6)
        return list(range(start, start + count))

    def odd_records(self) -> list[int]:
        return [0, -1, 2**53, -(2**53)]


class NumberArrowReceiver(ArrowReceiver):
    """Stores whole numbers in columnar batches."""

    def column(self, records: list[Any]) -> pa.Array:
        return pa.array(records, pa.int64())


class JsonFeeder(MemoryFeeder):
    """Feeds records as JSON texts, bad ones included."""

    def put(self, records: Sequence[Any]) -> None:
        super().put([json.dumps(record) for record in records])

    def put_bad(self) -> None:
        super().put(["{"])

    def acknowledged(self) -> list[Any]:
        return [json.loads(record) for record in super().acknowledged() if record != "{"]


class JsonReceiver(MemoryReceiver):
    """Decodes JSON texts; reports those that are none."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, text in entries:
            try:
                self.store_all([json.loads(text)])
            except json.JSONDecodeError as error:
                self.bad(text, error)
            connection.acknowledge(position)

    def bad(self, text: str, error: Exception) -> None:
        self.reportError(f"{text!r} is not JSON", error)


class BareReceiver(Receiver[str]):
    """Reads on a thread of its own that nobody supervises."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        self.address = feeder.source.address
        self.connection: MemoryConnection | None = None
        self.thread: threading.Thread | None = None

    def onStart(self) -> None:
        if self.thread is not None and self.thread.is_alive():
            raise RuntimeError("it is started already")
        self.thread = threading.Thread(target=self.read, name="bare reader", daemon=True)
        self.thread.start()

    def read(self) -> None:
        try:
            self.read_all()
        except Exception as error:
            if not self.isStopped():
                self.restart("reading failed", error)

    def read_all(self) -> None:
        self.connection = connection = MemorySource.find(self.address).connect()
        while not self.isStopped() and (entries := connection.read()):
            self.store_all([record for _, record in entries])
            for position, _ in entries:
                connection.acknowledge(position)

    def onStop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        if self.thread is not None:
            self.thread.join(10)


class PipeReceiver(MemoryReceiver):
    """Passes each record through a process of its own."""

    def receive(self) -> None:
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        try:
            super().receive()
        finally:
            self.process.kill()
            self.process.communicate()

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, record in entries:
            self.store_all([self.passed(record)])
            connection.acknowledge(position)

    def passed(self, record: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        data = json.dumps(record).encode() + b"\n"
        # In parts that the pipes hold: nobody reads the answer while this writes.
        answer = b""
        for start in range(0, len(data), 4096):
            self.process.stdin.write(data[start : start + 4096])
            wanted = min(len(data), start + 4096)
            while len(answer) < wanted:
                part = self.process.stdout.read(wanted - len(answer))
                if not part:
                    raise BrokenPipeError("the process has ended")
                answer += part
        text: str = json.loads(answer)
        return text


_REPLAYABLE = Capabilities(replayable=True, bounded=True)
#: Each reference with its feeder and what it can do.
ALL: list[tuple[Callable[..., Receiver[Any]], Callable[[], Feeder], Capabilities]] = [
    (OnStoredReceiver, MemoryFeeder, MEMORY_RECEIVER),
    (ReturningReceiver, MemoryFeeder, MEMORY_RECEIVER),
    (ReplayableReceiver, MemoryFeeder, _REPLAYABLE),
    (PartitionedReceiver, MemoryFeeder, Capabilities(replayable=True, bounded=True, partitioned=True)),
    (ArrowReceiver, MemoryFeeder, Capabilities(acknowledged=True, bounded=True, arrow=True)),
    (NumberArrowReceiver, NumberFeeder, Capabilities(acknowledged=True, bounded=True, arrow=True)),
    (JsonReceiver, JsonFeeder, MEMORY_RECEIVER),
    (BareReceiver, MemoryFeeder, MEMORY_RECEIVER),
    (PipeReceiver, MemoryFeeder, MEMORY_RECEIVER),
]
