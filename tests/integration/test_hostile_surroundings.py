"""A real program beside what should not harm it: bad listeners, strangers at its ports, an output that never ends."""

from __future__ import annotations

import os
import pickle
import random
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight
from tests.helpers import Gate, engine_of, listening_ports, run_in_background
from tests.wire.half_open import Stranger

from penstock import StopProgress, StreamingContext, StreamingContextState, StreamingListener, ThreadReceiver

pytestmark = pytest.mark.spark

MakeSsc = Callable[..., StreamingContext]
WaitFor = Callable[..., None]


class Numbers(ThreadReceiver[tuple[int, int]]):
    """Stores its process and consecutive numbers, reliably."""

    def receive(self) -> None:
        number = 0
        while not self.wait(0.01):
            self.store_all([(os.getpid(), number)])
            number += 1


class Events(StreamingListener):
    """Collects the receiver's errors and the batches that failed, and counts the batches."""

    def __init__(self) -> None:
        self.batches = 0
        self.errors: list[str] = []

    def onReceiverError(self, receiverError: Any) -> None:
        self.errors.append(receiverError.receiverInfo.lastErrorMessage)

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        self.batches += 1
        operations = batchCompleted.batchInfo.outputOperationInfos.values()
        self.errors += [operation.failureReason for operation in operations if operation.failureReason]


class Raising:
    """Fails on every event."""

    def onBatchCompleted(self, _batchCompleted: object) -> None:
        raise ValueError("always")


class Hanging:
    """Never returns from its first event."""

    def __init__(self, gate: Gate) -> None:
        self.onBatchStarted = gate


def test_a_raising_and_a_hanging_listener_delay_no_batch_and_no_other_listener(
    make_ssc: MakeSsc, wait_for: WaitFor, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    ssc, events = make_ssc(0.1), Events()
    for listener in (Raising(), Hanging(gate), events):
        ssc.addStreamingListener(listener)
    ssc.queueStream([[1]] * 1000).foreachRDD(lambda _rdd: None)
    ssc.start()
    assert gate.reached.wait(30)
    before = events.batches
    wait_for(lambda: events.batches >= before + 5, "five batches after the listener hangs")

    def disabled() -> list[str]:
        about = [record.getMessage() for record in caplog.records if record.name == "penstock.listener_bus"]
        return [message for message in about if "listener disabled" in message]

    # Each listener has a thread of its own, which may be late.
    wait_for(disabled, "the listener that raises to be disabled")
    (message,) = disabled()
    assert "consecutive_failures=10" in message
    assert ".Raising" in message
    stopping = run_in_background(lambda: ssc.stop(stopSparkContext=False))
    stopping.result(timeout=30)
    assert events.errors == []


class Explosive:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


def test_strangers_at_the_ports_of_a_running_program_are_refused_and_harm_nothing(
    make_ssc: MakeSsc, collect: Any, wait_for: WaitFor, tmp_path: Path
) -> None:
    ours = set(listening_ports(os.getpid()))
    ssc, events = make_ssc(), Events()
    ssc.addStreamingListener(events)
    batches = collect(ssc.receiverStream(Numbers()))
    ssc.start()
    wait_for(lambda: batches.records, "the first records")
    receiver, _number = batches.records[0]
    of_driver, of_receiver = set(listening_ports(os.getpid())) - ours, listening_ports(receiver)
    assert of_driver
    assert of_receiver
    bomb = pickle.dumps(Explosive(tmp_path / "unpickled"))
    noise = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bomb,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        random.Random(7).randbytes(5000),
    ]
    for port in (*of_driver, *of_receiver):
        for data in noise:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(data)
        call = flight.FlightCallOptions(timeout=10, headers=[(b"authorization", b"Bearer guess")])
        with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
            for action in ("StopReceiver", "AddBlocks"):
                with pytest.raises(flight.FlightUnauthenticatedError):
                    list(client.do_action(flight.Action(action, bomb), call))
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.do_get(flight.Ticket(b"input-0-1-0"), call).read_all()
    after = len(batches.records)
    wait_for(lambda: len(batches.records) > after + 10, "more records")
    with ExitStack() as held:
        for port in (*of_driver, *of_receiver):
            for calls in (False, True):
                held.enter_context(Stranger(port, calls=calls))
        began = time.monotonic()
        ssc.stop(stopSparkContext=False, stopGracefully=True)
        # One silent connection to an endpoint that waits for it would take 20 s, an unfinished call for ever.
        assert time.monotonic() - began < 15
    assert batches.records == [(receiver, number) for number in range(len(batches.records))]
    assert events.errors == []
    assert not (tmp_path / "unpickled").exists()


def test_a_graceful_stop_that_reaches_its_deadline_returns_and_leaves_the_batch_that_hangs(
    make_ssc: MakeSsc, gate: Gate
) -> None:
    phases: list[str] = []

    class Phases:
        def onStopProgress(self, stopProgress: StopProgress) -> None:
            phases.append(stopProgress.phase)

    ssc = make_ssc(conf={"spark.streaming.gracefulStopTimeout": "1s"})
    ssc.addStreamingListener(Phases())
    ssc.queueStream([[1]]).foreachRDD(gate)
    ssc.start()
    assert gate.reached.wait(30)
    started = time.monotonic()
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    took_s = time.monotonic() - started
    assert 1 <= took_s < 20
    assert ssc.getState() is StreamingContextState.STOPPED
    assert phases[0] == "receivers"
    assert phases[-1] == "listeners"
    assert engine_of(ssc).scheduler.pending_batches, "the batch that hangs does not count as done"
