"""What type checkers make of listeners and their context: never run, checked by mypy and pyright."""

from __future__ import annotations

from typing import assert_type

from penstock import (
    BatchCompleted,
    BatchInfo,
    ListenerContext,
    ReceiverError,
    ReceiverInfo,
    StreamingContext,
    StreamingListener,
    hookimpl,
)


class Alerts(StreamingListener):
    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        info = batchCompleted.batchInfo
        assert_type(info, BatchInfo)
        assert_type(info.batchTime, int)
        assert_type(info.numRecords, int)
        assert_type(info.processingDelay, int | None)

    def onReceiverError(self, receiverError: ReceiverError) -> None:
        assert_type(receiverError.receiverInfo, ReceiverInfo)
        assert_type(receiverError.receiverInfo.lastErrorMessage, str)


class Wrong(StreamingListener):
    def onBatchCompleted(self, batchCompleted: str) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


@hookimpl
def listeners(context: ListenerContext) -> list[object]:
    assert_type(context.batch_interval_ms, int)
    assert_type(context.rate_limit(0), float | None)
    context.set_rate(0, 100.0)
    context.set_rate("0", 100.0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return [Alerts()]


def check_adding(ssc: StreamingContext) -> None:
    ssc.addStreamingListener(Alerts())
