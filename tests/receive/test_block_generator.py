"""``BlockGenerator``: buffer, cut, push; with the numbers of Spark's BlockGeneratorSuite."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from tests.helpers import await_blocked, wait_for

from penstock.conf import Settings
from penstock.errors import ReceiverStoppedError
from penstock.receive.block_generator import BlockGenerator, GeneratedBlock, GeneratorState
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import SystemClock
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate

Background = Callable[[Callable[[], Any]], "Future[Any]"]
INTERVAL_MS = 100
SETTINGS = Settings.parse({"spark.streaming.blockInterval": f"{INTERVAL_MS}ms"})


class Listener:
    """Owns a generator, and records what it gets from it."""

    def __init__(self, clock: ManualClock | SystemClock, **bounds: Any) -> None:
        self.blocks: list[list[Any]] = []
        self.arrivals: list[int] = []
        self.states: list[GeneratorState] = []
        self.on_push: Callable[[list[Any]], object] = lambda _records: None
        self._queue: queue.Queue[list[Any]] = queue.Queue()
        self.generator = BlockGenerator(self, evolve(SETTINGS, **bounds), clock, RateLimiter(clock, None, 0))

    def on_generate_block(self) -> None:
        self.states.append(self.generator.state)

    def on_push_block(self, block: GeneratedBlock) -> None:
        self.states.append(self.generator.state)
        records, failure = block.records, None
        try:
            self.on_push(records)
            self.arrivals.append(block.arrival_ms)
            self.blocks.append(records)
            self._queue.put(records)
        except OSError as error:
            failure = error
        self.generator.complete(block, failure, {})

    def on_error(self, message: str, error: BaseException, *, is_final: bool) -> None:
        raise AssertionError(message) from error

    def take(self) -> list[Any]:
        """The next block, waited for."""
        return self._queue.get(timeout=10)

    @property
    def records(self) -> list[Any]:
        return [record for block in self.blocks for record in block]


@pytest.fixture
def make(clock: ManualClock) -> Iterator[Callable[..., Listener]]:
    listeners: list[Listener] = []

    def make(
        records: int = 100_000,
        num_bytes: int = 1 << 30,
        blocks: int = 10,
        other_clock: ManualClock | SystemClock | None = None,
    ) -> Listener:
        listeners.append(
            Listener(
                other_clock or clock,
                max_buffered_records=records,
                max_buffered_bytes=num_bytes,
                block_queue_size=blocks,
            )
        )
        listeners[-1].generator.start()
        return listeners[-1]

    yield make
    for pushed in listeners:
        pushed.generator.stop()


Make = Callable[..., Listener]


def test_records_are_pushed_in_order_after_the_interval(make: Make, clock: ManualClock) -> None:
    pushed = make()
    for record in range(1, 11):
        pushed.generator.add_data(record)
    clock.await_waiters()
    assert pushed.blocks == []
    clock.advance(INTERVAL_MS)
    assert pushed.take() == list(range(1, 11))
    for record in range(11, 21):
        pushed.generator.add_data(record)
    clock.advance(INTERVAL_MS)
    assert pushed.take() == list(range(11, 21))


def test_an_interval_without_records_makes_no_block(make: Make, clock: ManualClock) -> None:
    pushed = make()
    clock.advance(10 * INTERVAL_MS)
    pushed.generator.add_data("only")
    clock.advance(INTERVAL_MS)
    assert pushed.take() == ["only"]
    clock.advance(10 * INTERVAL_MS)
    pushed.generator.stop()
    assert pushed.blocks == [["only"]]


def test_block_arrives_with_its_earliest_record(make: Make, clock: ManualClock) -> None:
    pushed = make()
    clock.advance(10)
    began_ms = clock.now_ms()
    pushed.generator.add_data(1)
    clock.advance(20)
    pushed.generator.add_data(2)
    clock.advance(INTERVAL_MS)
    assert pushed.take() == [1, 2]
    pushed.generator.add_data(3)
    clock.advance(INTERVAL_MS)
    assert pushed.take() == [3]
    assert pushed.arrivals == [began_ms, began_ms + 20 + INTERVAL_MS]


def test_stop_pushes_all_records_in_order(make: Make) -> None:
    pushed = make()
    for record in range(1, 1001):
        pushed.generator.add_data(record)
    pushed.generator.stop()
    assert pushed.records == list(range(1, 1001))
    assert pushed.generator.dropped_records == 0


def test_stop_is_idempotent(make: Make) -> None:
    pushed = make()
    pushed.generator.add_data(1)
    pushed.generator.stop()
    pushed.generator.stop()
    assert pushed.blocks == [[1]]


def test_after_stop_nothing_is_taken(make: Make) -> None:
    pushed = make()
    pushed.generator.stop()
    with pytest.raises(ReceiverStoppedError, match="was not stored"):
        pushed.generator.add_data(1)
    assert pushed.blocks == []


def test_before_start_nothing_is_taken(clock: ManualClock) -> None:
    pushed = Listener(clock)
    with pytest.raises(ReceiverStoppedError, match="was not stored"):
        pushed.generator.add_data(1)
    pushed.generator.stop()


def test_blocks_are_pushed_one_at_a_time(make: Make, clock: ManualClock, gate: Gate) -> None:
    pushed = make()
    pushed.on_push = gate
    for n in range(5):
        pushed.generator.add_data(n)
        clock.await_waiters()
        ticks = len(pushed.states)
        clock.advance(INTERVAL_MS)
        wait_for(lambda at=ticks: len(pushed.states) > at, "the tick")  # type: ignore[misc]  # mypy
    assert gate.reached.wait(10)
    assert pushed.blocks == []
    gate.open()
    pushed.generator.stop()
    assert pushed.records == list(range(5))
    assert pushed.states.count(GeneratorState.Active) >= 5


def test_stop_passes_through_the_states_of_spark(make: Make, clock: ManualClock) -> None:
    unstarted = Listener(clock)
    assert unstarted.generator.state is GeneratorState.Initialized
    pushed = make()
    clock.await_waiters()
    clock.advance(INTERVAL_MS)
    wait_for(lambda: pushed.states, "a tick")
    pushed.generator.add_data(1)
    pushed.generator.stop()
    assert pushed.states[0] is GeneratorState.Active
    assert pushed.states[-1] in (GeneratorState.StoppedAddingData, GeneratorState.StoppedGeneratingBlocks)
    assert pushed.generator.state is GeneratorState.StoppedAll


def test_at_the_bound_of_records_add_waits_until_some_are_pushed(
    make: Make, clock: ManualClock, gate: Gate, background: Background
) -> None:
    pushed = make(records=5)
    pushed.on_push = gate
    for n in range(5):
        pushed.generator.add_data(n)
    waiting = background(lambda: pushed.generator.add_data(5))
    clock.await_waiters()
    clock.advance(INTERVAL_MS)
    # They are cut and being pushed: they count still.
    assert gate.reached.wait(10)
    await_blocked(BlockGenerator.add_data)
    gate.open()
    waiting.result(timeout=10)
    pushed.generator.stop()
    assert pushed.records == list(range(6))


def test_at_the_bound_of_bytes_add_waits_until_some_are_pushed(
    make: Make, clock: ManualClock, gate: Gate, background: Background
) -> None:
    record = "x" * 1000
    pushed = make(num_bytes=3 * sys.getsizeof(record))
    pushed.on_push = gate
    for _ in range(3):
        pushed.generator.add_data(record)
    waiting = background(lambda: pushed.generator.add_data("small"))
    await_blocked(BlockGenerator.add_data)
    gate.open()
    clock.await_waiters()
    clock.advance(INTERVAL_MS)
    waiting.result(timeout=10)
    pushed.generator.stop()
    assert pushed.records == [record] * 3 + ["small"]


def test_one_record_may_exceed_the_bound_of_bytes(make: Make) -> None:
    pushed = make(records=1, num_bytes=10)
    pushed.generator.add_data("x" * 100_000)
    pushed.generator.stop()
    assert [len(record) for record in pushed.records] == [100_000]


def test_blocks_waiting_to_be_pushed_are_bounded(
    make: Make, clock: ManualClock, gate: Gate, background: Background, drive: Callable[[Future[Any]], Any]
) -> None:
    pushed = make(records=50, blocks=2)
    pushed.on_push = gate

    def add() -> None:
        for n in range(1000):
            pushed.generator.add_data(n)

    adding = background(add)
    # Many ticks while nothing is pushed: records are taken up to the bound.
    for _ in range(200):
        clock.advance(INTERVAL_MS)
    assert gate.reached.wait(10)
    await_blocked(BlockGenerator.add_data)
    gate.open()
    drive(adding)
    pushed.generator.stop()
    assert pushed.records == list(range(1000))
    assert max(map(len, pushed.blocks)) <= 50


def test_stop_fails_waiting_callers(make: Make, clock: ManualClock, gate: Gate, background: Background) -> None:
    pushed = make(records=2)
    pushed.on_push = gate
    pushed.generator.add_data(0)
    pushed.generator.add_data(1)
    waiting = [background(lambda: pushed.generator.add_data(2)) for _ in range(3)]
    clock.await_waiters()
    clock.advance(INTERVAL_MS)
    assert gate.reached.wait(10)
    stopping = background(pushed.generator.stop)
    for future in waiting:
        with pytest.raises(ReceiverStoppedError):
            future.result(timeout=10)
    assert not stopping.done()
    gate.open()
    stopping.result(timeout=10)
    assert pushed.records == [0, 1]


def test_failed_push_frees_waiting_callers(make: Make, clock: ManualClock, background: Background) -> None:
    pushed = make(records=2)

    def fail(_records: list[Any]) -> None:
        raise OSError("no disk")

    pushed.on_push = fail
    pushed.generator.add_data(0)
    pushed.generator.add_data(1)
    waiting = background(lambda: pushed.generator.add_data(2))
    clock.await_waiters()
    clock.advance(INTERVAL_MS)
    waiting.result(timeout=10)
    pushed.generator.stop()
    assert pushed.generator.dropped_records == 3
