"""Listeners beside a program that runs: what they get, that they may go, and that a stop leaves nothing undelivered."""

from __future__ import annotations

import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.helpers import engine_of

from penstock import (
    BatchCompleted,
    Receiver,
    StopProgress,
    StreamingContext,
)
from penstock.errors import StreamingStateError
from penstock.listen.events import HOOK_OF
from penstock.listen.listener_bus import ListenerBus
from penstock.spark import cluster
from penstock_testing import ManualClock

pytestmark = pytest.mark.spark


class Recorder:
    """Keeps every event as it came; no StreamingListener, so that it gets the events themselves.

    Args:
        until: holds every event until it is set.
    """

    def __init__(self, until: threading.Event | None = None) -> None:
        self._until = until
        self.events: list[Any] = []
        for hook in HOOK_OF.values():
            setattr(self, hook, self._hear)

    def _hear(self, event: object) -> None:
        assert self._until is None or self._until.wait(120)
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        """The events of a class."""
        return [event for event in list(self.events) if isinstance(event, kind)]


class Program:
    """Batches of one record, due when the test says so.

    Args:
        sc: runs the jobs.
    """

    def __init__(self, sc: Any) -> None:
        self.clock = ManualClock()
        self.ssc = StreamingContext(sc, 1.0, clock=self.clock)
        self.rdds: deque[Any] = deque()
        self.stream = self.ssc.queueStream(self.rdds)
        self._outputs: queue.Queue[None] = queue.Queue()
        self._completed: queue.Queue[object] = queue.Queue()

    def onBatchCompleted(self, batchCompleted: object) -> None:
        """It listens itself, to know when a batch is over."""
        self._completed.put(batchCompleted)

    def start(self) -> None:
        """Add the last output, and begin."""
        self.stream.foreachRDD(lambda _rdd: self._outputs.put(None))
        self.ssc.addStreamingListener(self)
        self.ssc.start()

    def run_batch(self, *, to_the_end: bool = True) -> None:
        """Run the next batch, to the last event of it or of its last output only."""
        self.rdds.append([1])
        self.clock.await_waiters()
        self.clock.advance(1000)
        self._outputs.get(timeout=120)
        if to_the_end:
            self._completed.get(timeout=120)

    def stop(self) -> None:
        self.ssc.stop(stopSparkContext=False)


@pytest.fixture
def program(sc: Any) -> Iterator[Program]:
    program = Program(sc)
    yield program
    program.stop()


def test_a_listener_can_come_and_go_while_it_runs(program: Program, wait_for: Callable[..., None]) -> None:
    staying, leaving, coming = Recorder(), Recorder(), Recorder()
    program.ssc.addStreamingListener(staying)
    program.ssc.addStreamingListener(leaving)
    program.start()
    program.run_batch()
    program.ssc.removeStreamingListener(leaving)
    # What was posted before is delivered.
    heard = list(leaving.events)
    assert leaving.of(BatchCompleted)
    program.ssc.addStreamingListener(coming)
    program.run_batch()
    program.stop()
    assert leaving.events == heard
    assert [event.batchInfo.batchTime for event in staying.of(BatchCompleted)] == [1000, 2000]
    assert [event.batchInfo.batchTime for event in coming.of(BatchCompleted)] == [2000]


def test_a_listener_can_remove_itself_while_it_runs(program: Program) -> None:
    heard: list[int] = []

    class Once:
        def onBatchCompleted(self, batchCompleted: Any) -> None:
            heard.append(batchCompleted.batchInfo.batchTime)
            program.ssc.removeStreamingListener(self)

    program.ssc.addStreamingListener(Once())
    program.start()
    for _ in range(3):
        program.run_batch()
    program.stop()
    assert heard == [1000]


@pytest.mark.parametrize("batches", [1, 4])
def test_when_stop_returns_the_last_batchs_events_have_arrived(
    program: Program, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    stopping, stop = threading.Event(), ListenerBus.stop

    def announced(bus: ListenerBus, *arguments: Any) -> None:
        stopping.set()
        stop(bus, *arguments)

    monkeypatch.setattr(ListenerBus, "stop", announced)
    # When the bus stops it has heard nothing, and all its events are in the queue.
    slow = Recorder(until=stopping)
    program.ssc.addStreamingListener(slow)
    program.start()
    for _ in range(batches):
        program.run_batch(to_the_end=False)
    assert slow.events == []
    program.stop()
    assert [event.batchInfo.batchTime for event in slow.of(BatchCompleted)] == [
        1000 * number for number in range(1, batches + 1)
    ]
    # Nothing can come after that: the threads that deliver events have ended.
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("listener ")] == []


class Thousand(Receiver[int]):
    """Stores its records at once."""

    def onStart(self) -> None:
        self.store_all(range(1000))


def test_a_graceful_stop_processes_what_was_stored(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None]
) -> None:
    ssc = make_ssc(0.5)
    batches = collect(ssc.receiverStream(Thousand()))
    ssc.start()
    # A stop ends onStart: before the records are stored, it would end their storing.
    wait_for(lambda: engine_of(ssc).tracker.backlog.num_bytes or batches.records, "the records are stored")
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    assert len(batches.records) == 1000


def test_a_stop_that_is_not_graceful_waits_for_no_batch(
    program: Program, collect: Any, wait_for: Callable[..., None]
) -> None:
    batches = collect(program.ssc.receiverStream(Thousand()))
    program.start()
    wait_for(lambda: engine_of(program.ssc).tracker.receiver_infos()[1].active, "the receiver")
    program.ssc.stop(stopSparkContext=False)
    assert batches.all == []


def test_await_termination_says_whether_it_stopped(program: Program) -> None:
    program.start()
    assert program.ssc.awaitTermination(0.01) is False
    assert program.ssc.awaitTerminationOrTimeout(0.01) is False
    program.stop()
    assert program.ssc.awaitTermination(120) is True
    assert program.ssc.awaitTerminationOrTimeout(120) is True


def test_the_second_signal_stops_at_once(program: Program, wait_for: Callable[..., None]) -> None:
    heard, held, reached = Recorder(), threading.Event(), threading.Event()

    def hold(_rdd: object) -> None:
        reached.set()
        assert held.wait(120)

    def phases() -> list[str]:
        return [event.phase for event in heard.of(StopProgress)]

    program.stream.foreachRDD(hold)
    program.ssc.addStreamingListener(heard)
    program.start()
    program.clock.await_waiters()
    program.clock.advance(1000)
    assert reached.wait(120)
    # A real signal would end the process of the tests: this context installs no handler.
    program.ssc._on_signal(signal.SIGTERM)
    wait_for(lambda: "batches" in phases(), "the wait for the batch")
    assert program.ssc.awaitTermination(0.1) is False
    # The timer would have two more ticks to make, and the clock stands still.
    program.ssc._on_signal(signal.SIGINT)
    wait_for(lambda: "jobs" in phases(), "the end of that wait")
    held.set()
    assert program.ssc.awaitTermination(120) is True


def test_a_batch_that_fails_because_spark_is_gone_is_not_complete(
    program: Program, wait_for: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, held, reached = Recorder(), threading.Event(), threading.Event()

    def fail(_rdd: object) -> None:
        reached.set()
        assert held.wait(120)
        raise ConnectionRefusedError("the JVM is dead")

    program.stream.foreachRDD(fail)
    program.ssc.addStreamingListener(heard)
    program.start()
    program.clock.await_waiters()
    program.clock.advance(1000)
    assert reached.wait(120)
    stopping = threading.Thread(target=lambda: program.ssc.stop(stopSparkContext=False, stopGracefully=True))
    stopping.start()
    wait_for(lambda: "batches" in [event.phase for event in heard.of(StopProgress)], "the wait for the batch")
    # As when one SIGTERM reaches both processes.
    monkeypatch.setattr(cluster, "is_stopped", lambda _sc: True)
    held.set()
    with pytest.raises(StreamingStateError, match="the SparkContext was stopped"):
        program.ssc.awaitTermination(120)
    stopping.join(120)
    # A recovered run generates it again.
    assert engine_of(program.ssc).scheduler.pending_batches == [1000]
