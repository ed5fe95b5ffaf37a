"""The nine events and what they carry.

Owns the frozen values that listeners get. Field names are Spark's; times are milliseconds since the epoch, delays are
milliseconds, ``None`` means not known (yet).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen
class StreamInputInfo:
    """What one input stream gave to one batch.

    Attributes:
        inputStreamId: id of the stream.
        numRecords: records it gave; 0 where a stream cannot know.
        metadata: anything the stream says about them; the key ``Description`` is for people.
        rate_limit: records/s that the stream's receiver was held to when the batch was made; ``None`` for no limit.
    """

    inputStreamId: int
    numRecords: int
    metadata: Mapping[str, Any] = field(factory=dict)
    rate_limit: float | None = None

    @property
    def metadataDescription(self) -> str | None:
        """The metadata's ``Description``, as text."""
        description = self.metadata.get("Description")
        return None if description is None else str(description)


@frozen
class OutputOperationInfo:
    """One output operation of one batch.

    Attributes:
        batchTime: the batch.
        id: 0, 1, … in the order in which the program registered its outputs.
        name: where the program registered it, short.
        description: the same, long.
        startTime: when it started.
        endTime: when it ended.
        failureReason: the traceback when it failed.
    """

    batchTime: int
    id: int
    name: str
    description: str
    startTime: int | None = None
    endTime: int | None = None
    failureReason: str | None = None

    @property
    def duration(self) -> int | None:
        """How long it ran."""
        return None if self.startTime is None or self.endTime is None else self.endTime - self.startTime


@frozen
class BatchInfo:
    """One batch.

    Attributes:
        batchTime: the end of the interval whose data it holds.
        streamIdToInputInfo: what each input stream gave; streams that cannot report are absent.
        submissionTime: when its jobs were submitted.
        processingStartTime: when its first job started.
        processingEndTime: when its last job ended, or when it was given up.
        outputOperationInfos: its output operations by id.
    """

    batchTime: int
    streamIdToInputInfo: Mapping[int, StreamInputInfo]
    submissionTime: int
    processingStartTime: int | None
    processingEndTime: int | None
    outputOperationInfos: Mapping[int, OutputOperationInfo]

    @property
    def schedulingDelay(self) -> int | None:
        """From submission to the start of the first job."""
        return None if self.processingStartTime is None else self.processingStartTime - self.submissionTime

    @property
    def processingDelay(self) -> int | None:
        """From the start of the first job to the end of the last."""
        if self.processingStartTime is None or self.processingEndTime is None:
            return None
        return self.processingEndTime - self.processingStartTime

    @property
    def totalDelay(self) -> int | None:
        """Scheduling and processing delay together."""
        return None if self.processingEndTime is None else self.processingEndTime - self.submissionTime

    @property
    def succeeded(self) -> bool | None:
        """Whether all its output operations ended well; ``None`` while it runs."""
        operations = self.outputOperationInfos.values()
        if self.processingEndTime is None or any(operation.endTime is None for operation in operations):
            return None
        return all(operation.failureReason is None for operation in operations)

    @property
    def numRecords(self) -> int:
        """Records of all streams."""
        return sum(info.numRecords for info in self.streamIdToInputInfo.values())


@frozen
class PastError:
    """An error of a receiver.

    Attributes:
        time: when it was told.
        message: what went wrong.
        error: the traceback, empty when there is none.
    """

    time: int
    message: str
    error: str = ""


@frozen
class ReceiverInfo:
    """One receiver.

    Attributes:
        streamId: of its input stream.
        name: ``<class>-<streamId>``.
        active: whether it is registered now.
        location: host of its executor, empty when unknown.
        executorId: its executor, empty when unknown.
        lastErrorMessage: what went wrong last, empty for nothing.
        lastError: the traceback of it.
        lastErrorTime: when there was an error last, -1 for never.
        recent_errors: the last ones, oldest first.
        unhealthy: it fails more often than `spark.penstock.receiver.maxRestarts` allows.
        given_up: it is not started again.
        lost_blocks: stored blocks that batches needed and that were gone.
        lost_records: in them.
    """

    streamId: int
    name: str
    active: bool
    location: str
    executorId: str
    lastErrorMessage: str = ""
    lastError: str = ""
    lastErrorTime: int = -1
    recent_errors: tuple[PastError, ...] = ()
    unhealthy: bool = False
    given_up: bool = False
    lost_blocks: int = 0
    lost_records: int = 0


@frozen
class StreamingStarted:
    """The context has started."""

    time: int


@frozen
class ReceiverStarted:
    """A receiver registered: for the first time, or after a restart."""

    receiverInfo: ReceiverInfo


@frozen
class ReceiverError:
    """A receiver reported an error, or its process died."""

    receiverInfo: ReceiverInfo


@frozen
class ReceiverStopped:
    """A receiver stopped; it may come back."""

    receiverInfo: ReceiverInfo


@frozen
class BatchSubmitted:
    """A batch's jobs wait to run."""

    batchInfo: BatchInfo


@frozen
class BatchStarted:
    """The first job of a batch started."""

    batchInfo: BatchInfo


@frozen
class BatchCompleted:
    """The last job of a batch ended, well or not."""

    batchInfo: BatchInfo


@frozen
class OutputOperationStarted:
    """A job started."""

    outputOperationInfo: OutputOperationInfo


@frozen
class OutputOperationCompleted:
    """A job ended, well or not."""

    outputOperationInfo: OutputOperationInfo


@frozen
class CheckpointFailed:
    """Checkpoints could not be written, several in a row: a run that is killed now goes on from further back.

    Attributes:
        time: when, ms.
        failures: how many in a row.
        reason: of the last.
    """

    time: int
    failures: int
    reason: str


@frozen
class StopProgress:
    """A step of stopping began, or some of it is done.

    Attributes:
        time: when, ms.
        phase: ``receivers``, ``batches``, ``jobs``, ``checkpoint``, ``files`` or ``listeners``.
        batchesLeft: that are not complete.
    """

    time: int
    phase: str
    batchesLeft: int


Event = (
    CheckpointFailed
    | StopProgress
    | StreamingStarted
    | ReceiverStarted
    | ReceiverError
    | ReceiverStopped
    | BatchSubmitted
    | BatchStarted
    | BatchCompleted
    | OutputOperationStarted
    | OutputOperationCompleted
)

#: Name of the hook that each kind of event goes to.
HOOK_OF: dict[type, str] = {kind: f"on{kind.__name__}" for kind in Event.__args__}
