"""A listener derived from ``pyspark.streaming.StreamingListener`` reads events as PySpark's methods."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.streaming import StreamingListener as PySparkListener

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    CheckpointFailed,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    StopProgress,
    StreamingListener,
    StreamingStarted,
    StreamInputInfo,
)
from penstock.listen.listener_bus import ListenerBus
from penstock.listen.registered_listener import is_streaming_listener

OPERATION = OutputOperationInfo(1000, 0, "n", "d", 1050, 1350)
BATCH = BatchInfo(1000, {0: StreamInputInfo(0, 3)}, 1010, 1050, 1350, {0: OPERATION})
RECEIVER = ReceiverInfo(3, "R-3", True, "host", "1", "boom")


class Collector(PySparkListener):
    """As PySpark's documentation and tests write them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def onStreamingStarted(self, streamingStarted: Any) -> None:
        self.seen.append(("started", streamingStarted.time))

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        self.seen.append(("receiver started", receiverStarted.receiverInfo().streamId()))

    def onReceiverError(self, receiverError: Any) -> None:
        self.seen.append(("receiver error", receiverError.receiverInfo().lastErrorMessage()))

    def onReceiverStopped(self, receiverStopped: Any) -> None:
        self.seen.append(("receiver stopped", receiverStopped.receiverInfo().name()))

    def onBatchSubmitted(self, batchSubmitted: Any) -> None:
        self.seen.append(("submitted", batchSubmitted.batchInfo().submissionTime()))

    def onBatchStarted(self, batchStarted: Any) -> None:
        self.seen.append(("batch started", batchStarted.batchInfo().schedulingDelay()))

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        info = batchCompleted.batchInfo()
        inputs = [info.streamIdToInputInfo()[key].numRecords() for key in info.streamIdToInputInfo()]
        self.seen.append(("completed", info.processingDelay(), info.totalDelay(), inputs))

    def onOutputOperationStarted(self, outputOperationStarted: Any) -> None:
        self.seen.append(("output started", outputOperationStarted.outputOperationInfo().id()))

    def onOutputOperationCompleted(self, outputOperationCompleted: Any) -> None:
        self.seen.append(("output completed", outputOperationCompleted.outputOperationInfo().failureReason()))


def test_every_callback_of_a_pyspark_listener_reads_its_event(caplog: pytest.LogCaptureFixture) -> None:
    bus, listener = ListenerBus(queue_size=100, max_failures=1), Collector()
    bus.add(listener)
    bus.start()
    for event in (
        StreamingStarted(5),
        ReceiverStarted(RECEIVER),
        ReceiverError(RECEIVER),
        ReceiverStopped(RECEIVER),
        BatchSubmitted(BATCH),
        BatchStarted(BATCH),
        OutputOperationStarted(OPERATION),
        OutputOperationCompleted(OPERATION),
        BatchCompleted(BATCH),
        # PySpark has no callbacks for these.
        CheckpointFailed(6, 3, "full"),
        StopProgress(7, "batches", 0),
    ):
        bus.post(event)
    bus.stop(10)
    assert caplog.text == ""
    assert listener.seen == [
        ("started", 5),
        ("receiver started", 3),
        ("receiver error", "boom"),
        ("receiver stopped", "R-3"),
        ("submitted", 1010),
        ("batch started", 40),
        ("output started", 0),
        ("output completed", None),
        ("completed", 300, 340, [3]),
    ]


@pytest.mark.parametrize(
    ("target", "expected"),
    [(Collector(), True), (StreamingListener(), True), (threading.Lock(), False)],
    ids=["pyspark", "penstock", "other"],
)
def test_only_streaming_listeners_get_views(target: object, expected: bool) -> None:
    assert is_streaming_listener(target) is expected
