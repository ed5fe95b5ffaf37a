"""The simulated world around a program: sources, a sink, and a program with two receivers, a window and state."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from attrs import define, field, frozen
from pyspark import RDD, SparkContext

from penstock import State, StateSpec, StreamingContext, ThreadReceiver
from penstock_testing.simulation.scheduler import Scheduler, SimulatedProcess

INTERVAL_S = 1.0
WINDOW_S = 6.0
#: A key without records for longer than this loses its state of ``mapWithState``.
TIMEOUT_S = 4.0
_KEYS = 5

#: A delivery of a message by a source: its key, and a number that no other delivery has.
Record = tuple[int, int]


@define
class Source:
    """Messages of one stream. What is not acknowledged is delivered again, under another number."""

    stream: int
    #: When each message is there, in seconds of virtual time.
    due_s: Sequence[float]
    #: The messages that were acknowledged, and the deliveries.
    done: set[int] = field(factory=set)
    acknowledged: set[int] = field(factory=set)
    # The message of each delivery.
    delivered: dict[int, int] = field(factory=dict)

    def deliver(self, message: int) -> Record:
        """Deliver a message."""
        number = (len(self.delivered) + 1) * 10 + self.stream
        self.delivered[number] = message
        return message % _KEYS, number

    def acknowledge(self, number: int) -> None:
        """The program answers for a delivery from now on."""
        self.acknowledged.add(number)
        self.done.add(self.delivered[number])


@define(eq=False)
class Connection:
    """A receiver's connection to a source, which begins with the oldest message that is not acknowledged."""

    source: Source
    next_message: int = 0

    def take(self, most: int, now_s: float) -> list[Record]:
        """The next messages that are there, up to a number."""
        source, records = self.source, list[Record]()
        while len(records) < most and self.next_message < len(source.due_s):
            message = self.next_message
            if source.due_s[message] > now_s:
                break
            self.next_message += 1
            if message not in source.done:
                records.append(source.deliver(message))
        return records


class World:
    """What processes of a simulation reach: sources and a sink."""

    def __init__(self, scheduler: Scheduler, messages: int, duration_s: float) -> None:
        self.scheduler = scheduler
        #: The newest version of the program, and those that drivers run which rebuild the program.
        self.version = 1
        self.versions: dict[SimulatedProcess, int] = {}
        self.sources = [
            Source(stream, sorted(scheduler.random.random() * duration_s for _ in range(messages))) for stream in (0, 1)
        ]
        #: Called before each output, and before a receiver stores; may raise.
        self.before_output: Callable[[], None] = lambda: None
        self.before_store: Callable[[], None] = lambda: None
        #: What output operations wrote, by operation and batch time in ms.
        self.outputs: dict[tuple[str, int], list[Any]] = {}
        self.violations: list[str] = []

    def acknowledge(self, stream: int, records: Sequence[Record]) -> None:
        """Acknowledge deliveries of a source."""
        self.scheduler.check()
        for _key, number in records:
            self.sources[stream].acknowledge(number)

    def write(self, operation: str, time_ms: int, values: list[Any], version: int) -> None:
        """Write the output of a batch; it must be what an earlier run of the batch has written."""
        task = self.scheduler.check()
        expected = version if task is None else self.versions.get(task.process, version)
        if version != expected:
            self.violate(f"version {version} of the program writes, in a driver that runs version {expected}")
        self.before_output()
        earlier = self.outputs.setdefault((operation, time_ms), values)
        self.scheduler.note(f"output {operation} {time_ms}: {values}")
        if earlier != values:
            self.violate(f"output {operation} of batch {time_ms} was {earlier} and is now {values}")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the world that receivers and output operations reach."""
        _entered.append(self)
        try:
            yield
        finally:
            _entered.pop()

    @property
    def is_drained(self) -> bool:
        """Whether the program has acknowledged every message."""
        return all(len(source.done) == len(source.due_s) for source in self.sources)

    def violate(self, what: str) -> None:
        """Record that an invariant does not hold."""
        self.scheduler.note(f"VIOLATED: {what}")
        self.violations.append(what)


# The world that receivers and output operations reach, which are pickled.
_entered: list[World] = []


class ReliableReceiver(ThreadReceiver[Record]):
    """Stores batches with ``store_all`` and acknowledges them afterwards."""

    def receive(self) -> None:
        world = _entered[-1]
        connection, random = Connection(world.sources[0]), world.scheduler.random
        while not self.isStopped():
            records = connection.take(random.randint(1, 5), world.scheduler.now_s)
            if records:
                world.before_store()
                self.store_all(records)
                world.acknowledge(0, records)
            if self.wait(0.05 + random.random() * 0.2):
                return


class BufferedReceiver(ThreadReceiver[Record]):
    """Stores single records with ``store``, and acknowledges each when it is accepted."""

    def receive(self) -> None:
        world = _entered[-1]
        connection, random = Connection(world.sources[1]), world.scheduler.random
        while not self.isStopped():
            for record in connection.take(random.randint(1, 3), world.scheduler.now_s):
                world.before_store()
                self.store(record, partial(_settle, connection, record))
            if self.wait(0.05 + random.random() * 0.1):
                return


def _settle(connection: Connection, record: Record, error: BaseException | None) -> None:
    """Acknowledge a record that is accepted; have one that is lost delivered again."""
    if error is None:
        _entered[-1].acknowledge(1, [record])
    else:
        connection.next_message = 0


@frozen
class Emit:
    """An output operation that writes the sorted records of each batch to the sink."""

    operation: str
    version: int

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        """Write a batch."""
        values = sorted(rdd.collect())
        _entered[-1].write(self.operation, round(time.timestamp() * 1000), values, self.version)


def count(values: Sequence[int], state: int | None) -> int:
    """The state of a key: how many records it has had."""
    return (state or 0) + sum(values)


def numbered(key: int, _value: int | None, state: State[int]) -> tuple[int, int, bool]:
    """Number the records of a key since its state began; report the last number when the state times out."""
    if state.isTimingOut():
        return key, state.get(), True
    state.update((state.getOption() or 0) + 1)
    return key, state.get(), False


def create(sc: SparkContext, version: int, *, maps_with_state: bool = False) -> StreamingContext:
    """A version of the program, with ``mapWithState`` or without."""
    ssc = StreamingContext(sc, INTERVAL_S)
    records = ssc.union(ssc.receiverStream(ReliableReceiver()), ssc.receiverStream(BufferedReceiver()))
    records.foreachRDD(Emit("records", version))
    pairs = records.mapValues(lambda _number: 1)
    pairs.reduceByKeyAndWindow(operator.add, operator.sub, WINDOW_S, INTERVAL_S, 2).foreachRDD(Emit("window", version))
    pairs.updateStateByKey(count, 2).foreachRDD(Emit("state", version))
    if maps_with_state:
        mapped = pairs.mapWithState(StateSpec.function(numbered).numPartitions(2).timeout(TIMEOUT_S))
        mapped.foreachRDD(Emit("mapped", version))
        mapped.stateSnapshots().foreachRDD(Emit("snapshot", version))
    return ssc
