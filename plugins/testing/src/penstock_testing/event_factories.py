"""``batch_info`` and ``receiver_info``: what events carry, described by what differs, for tests of listeners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import BatchInfo, OutputOperationInfo, ReceiverInfo, StreamInputInfo


def batch_info(
    batchTime: int = 1000,
    *,
    records: Mapping[int, int] | int = 0,
    submission_delay: int = 0,
    schedulingDelay: int | None = 0,
    processingDelay: int | None = 100,
    failureReason: str | None = None,
    outputs: int = 1,
    awaits_rerun: bool = False,
) -> BatchInfo:
    """Return the info of a batch, complete unless a delay is ``None``: ``BatchCompleted(batch_info(records=50))``.

    Args:
        batchTime: ms.
        records: of each input stream by its id, or of stream 0.
        submission_delay: ms from the batch time to the submission.
        schedulingDelay: ms from the submission to the start; ``None`` for a batch that has not started.
        processingDelay: ms from the start to the end; ``None`` for a batch that has not ended.
        failureReason: traceback of the last output operation; ``None`` if it has not failed.
        outputs: number of output operations, which run side by side.
        awaits_rerun: whether failed output operations run again.
    """
    submitted = batchTime + submission_delay
    started = None if schedulingDelay is None else submitted + schedulingDelay
    ended = None if started is None or processingDelay is None else started + processingDelay
    counts = {0: records} if isinstance(records, int) else records
    operations = {
        id_: OutputOperationInfo(
            batchTime,
            id_,
            f"output {id_}",
            f"output {id_} at app.py",
            started,
            ended,
            failureReason if id_ == outputs - 1 else None,
        )
        for id_ in range(outputs)
    }
    inputs = {id_: StreamInputInfo(id_, count) for id_, count in counts.items()}
    return BatchInfo(batchTime, inputs, submitted, started, ended, operations, awaits_rerun)


def receiver_info(streamId: int = 0, **more: Any) -> ReceiverInfo:
    """Return the info of an active receiver on executor 1: ``ReceiverError(receiver_info(lastErrorMessage="lost"))``.

    Args:
        streamId: its input stream's id.
        more: attributes of ``ReceiverInfo``.

    Raises:
        TypeError: ``ReceiverInfo`` has no such attribute.
    """
    usual: dict[str, Any] = {"name": f"Receiver-{streamId}", "active": True, "location": "host", "executorId": "1"}
    return ReceiverInfo(streamId, **(usual | more))
