"""Receivers that fail are reported and relaunched; batches that fail leave the others alone."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.helpers import kill

from penstock import StreamingContext, StreamingListener, ThreadReceiver
from penstock.errors import ConfigurationError
from penstock.spi import get_logger

pytestmark = pytest.mark.spark


class Events(StreamingListener):
    """Notes what happens to receivers, and the batches' outcomes."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.errors: list[str] = []
        self.log_lines: list[tuple[str, ...]] = []
        self.failures: list[dict[int, str]] = []

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        self.seen.append("started")

    def onReceiverError(self, receiverError: Any) -> None:
        self.seen.append("error")
        self.errors.append(receiverError.receiverInfo.lastErrorMessage)
        self.log_lines.append(receiverError.receiverInfo.last_log_lines)

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        self.seen.append("stopped")

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        operations = batchCompleted.batchInfo.outputOperationInfos
        self.failures.append({op: info.failureReason for op, info in operations.items() if info.failureReason})


class TellsItsProcess(ThreadReceiver[int]):
    """Stores the id of the process it runs in, again and again."""

    def receive(self) -> None:
        while not self.wait(0.02):
            self.store(os.getpid())


class FailsOnce(ThreadReceiver[str]):
    """Raises in its first run and stores in the second."""

    def __init__(self) -> None:
        self.runs = 0

    def receive(self) -> None:
        self.runs += 1
        if self.runs == 1:
            logging.getLogger("my.client").warning("connecting with password=%s", "hunter22")
            get_logger("mine").warning("connection lost")
            raise ConnectionRefusedError("nobody listens")
        self.store("here")
        self.wait(60)


def test_a_receiver_whose_worker_is_killed_is_relaunched(
    ssc: StreamingContext, collect: Any, wait_for: Callable[..., None]
) -> None:
    events = Events()
    ssc.addStreamingListener(events)
    batches = collect(ssc.receiverStream(TellsItsProcess()))
    ssc.start()
    wait_for(lambda: batches.records, "the first records")
    victim = batches.records[0]
    assert kill(victim)
    wait_for(lambda: batches.records[-1] != victim, "records of another process")
    wait_for(lambda: len(events.seen) >= 4, "four events")
    assert events.seen[:4] == ["started", "error", "stopped", "started"]
    assert "Python worker exited unexpectedly" in events.errors[0]


def test_a_stop_right_after_the_start_leaves_no_job(
    make_ssc: Callable[..., StreamingContext], sc: Any, wait_for: Callable[..., None]
) -> None:
    class Hesitates(TellsItsProcess):
        def preferredLocation(self) -> str | None:
            time.sleep(0.1)  # as one that asks a broker where it is
            return None

    for _ in range(3):
        ssc = make_ssc()
        ssc.receiverStream(Hesitates()).foreachRDD(lambda rdd: None)
        ssc.start()
        ssc.stop(stopSparkContext=False)
        wait_for(lambda: not sc.statusTracker().getActiveJobsIds(), "no job is left")


def test_await_termination_returns_when_the_start_fails(ssc: StreamingContext) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(ssc.awaitTerminationOrTimeout, 120)
        with pytest.raises(ConfigurationError):
            ssc.start()
        assert waiting.result(timeout=120)


def test_a_receiver_that_raises_restarts_in_its_process(
    make_ssc: Callable[..., StreamingContext], collect: Any, wait_for: Callable[..., None]
) -> None:
    ssc = make_ssc(conf={"spark.streaming.receiverRestartDelay": "50"})
    events = Events()
    ssc.addStreamingListener(events)
    batches = collect(ssc.receiverStream(FailsOnce()))
    ssc.start()
    wait_for(lambda: batches.records, "a record after the restart")
    wait_for(lambda: len(events.seen) >= 4, "four events")
    assert events.seen[:4] == ["started", "error", "stopped", "started"]
    assert "nobody listens" in events.errors[0]
    assert events.log_lines[0][0] == "connecting with password=***"
    # In the log of the executor, which is this program's in local mode, it has the same fields.
    for part in ("connection lost [penstock.mine]", "receiver_id=FailsOnce-0", "stream_id=0", "epoch=1"):
        assert part in events.log_lines[0][1]


def test_a_function_that_raises_fails_its_batch_alone(
    ssc: StreamingContext, sc: Any, wait_for: Callable[..., None]
) -> None:
    events = Events()
    ssc.addStreamingListener(events)
    seen: list[int] = []

    def fail_on_two(value: int) -> int:
        if value == 2:
            raise ZeroDivisionError("two is not liked")
        return value

    ssc.queueStream([[1], [2], [3]]).map(fail_on_two).foreachRDD(lambda rdd: seen.extend(rdd.collect()))
    ssc.start()
    wait_for(lambda: 3 in seen, "the batch after the failing one")
    wait_for(lambda: len(events.failures) >= 3, "three events")
    assert seen == [1, 3]
    assert [sorted(failed) for failed in events.failures[:3]] == [[], [0], []]
    assert "two is not liked" in events.failures[1][0]
    with pytest.raises(Exception, match="two is not liked") as raised:
        ssc.awaitTerminationOrTimeout(120)
    assert "fail_on_two" in str(raised.value)
