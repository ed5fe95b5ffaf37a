"""The eleven events that listeners get, Spark's nine and two of Penstock's, and the infos in them.

Field names are Spark's. Times are milliseconds since the epoch, delays are milliseconds, ``None`` means not known
(yet).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen
class StreamInputInfo:
    """The input of one stream in one batch.

    Attributes:
        inputStreamId: the stream's id.
        numRecords: records in the batch; 0 where the stream cannot know.
        metadata: describes the input; the key ``Description`` is text for people.
        rate_limit: the receiver's, records/s, when the batch was generated; ``None`` for no limit.
        earliest_arrival: when a receiver got the earliest of the records, by its host's clock; ``None`` without records
            or receiver.
        traceparents: W3C trace contexts of the first traced records, if a plugin collects them.
    """

    inputStreamId: int
    numRecords: int
    metadata: Mapping[str, Any] = field(factory=dict)
    rate_limit: float | None = None
    earliest_arrival: int | None = None
    traceparents: tuple[str, ...] = ()

    @property
    def metadataDescription(self) -> str | None:
        """The metadata's ``Description``, as text."""
        description = self.metadata.get("Description")
        return None if description is None else str(description)


class OutputMetadata(dict[str, Any]):
    """What the function of an output operation returns to describe its output, such as ``OutputMetadata(rows=5)``."""


@frozen
class OutputOperationInfo:
    """An output operation of a batch.

    Attributes:
        batchTime: the batch.
        id: 0, 1, … in the order in which the program defined its output operations.
        name: its call site, short.
        description: its call site with the full path.
        startTime: when it started.
        endTime: when it ended.
        failureReason: the traceback when it failed.
        metadata: the ``OutputMetadata`` of its function, if that returned one.
    """

    batchTime: int
    id: int
    name: str
    description: str
    startTime: int | None = None
    endTime: int | None = None
    failureReason: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict)

    @property
    def duration(self) -> int | None:
        """From its start to its end."""
        return None if self.startTime is None or self.endTime is None else self.endTime - self.startTime


@frozen
class BatchInfo:
    """One batch.

    Attributes:
        batchTime: end of the interval in which its data arrived.
        streamIdToInputInfo: the input of each stream; streams that cannot report it are absent.
        submissionTime: when its jobs were submitted.
        processingStartTime: when its first job started.
        processingEndTime: when its last job ended or the batch was abandoned.
        outputOperationInfos: its output operations by id.
        awaits_rerun: whether it has failed, and its failed output operations run again: in this run, or all of them in
            a recovered one.
    """

    batchTime: int
    streamIdToInputInfo: Mapping[int, StreamInputInfo]
    submissionTime: int
    processingStartTime: int | None
    processingEndTime: int | None
    outputOperationInfos: Mapping[int, OutputOperationInfo]
    awaits_rerun: bool = False

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
        """Whether all its output operations succeeded; ``None`` while it runs."""
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
        time: when it was reported.
        message: describes the error.
        error: the traceback, empty when there is none.
    """

    time: int
    message: str
    error: str = ""


def _not_negative(value: Any) -> Any:
    return None if value is None else max(0, value)


@frozen
class SourceStatus:
    """The distance of a receiver from the end of its source. Negative values, from clocks that differ, become 0.

    Attributes:
        lag_messages: messages in the source that the receiver has not stored; ``None`` when unknown.
        lag_s: age of the last stored message, in seconds, while there are later ones; 0 when there are none.
        oldest_unacknowledged_s: seconds since it got the oldest unacknowledged message; ``None``: none, or unknown.
        redelivered: messages that this launch got although they had been delivered before.
        dead_letters: messages that this launch gave up and sent to the source's dead-letter destination.
        lag_by_partition: parts of ``lag_messages`` by partition, such as ``orders/0``, where the source has them.
    """

    lag_messages: int | None = field(default=None, converter=_not_negative)
    lag_s: float | None = field(default=None, converter=_not_negative)
    oldest_unacknowledged_s: float | None = field(default=None, converter=_not_negative)
    redelivered: int = 0
    dead_letters: int = 0
    lag_by_partition: Mapping[str, int] = field(factory=dict)


@frozen
class StoreTimes:
    """Where the time of a launch has gone, in ms. All values grow; differences say it of a period.

    Attributes:
        elapsed: time of the threads that stored meanwhile, of one thread while none did.
        limiter: of it, waits for the rate limit, or while the driver paused the receiver.
        buffer: of it, waits for room in the buffer of single records.
        disk: of it, stored blocks, or waited for space on a full disk.
        driver: of it, waited until the driver accepted blocks.
        code: of it, computed: CPU time of the receiver's code and of what it calls.
        encoding: the engine's threads encoded blocks of buffered records.
        storing: they stored these blocks.
        reporting: they reported blocks to the driver.
    """

    elapsed: int = 0
    limiter: int = 0
    buffer: int = 0
    disk: int = 0
    driver: int = 0
    code: int = 0
    encoding: int = 0
    storing: int = 0
    reporting: int = 0


@frozen
class ReceiverInfo:
    """One receiver.

    Attributes:
        streamId: its input stream's id.
        name: ``<class>-<streamId>``.
        active: whether it is registered.
        location: host of its executor, empty when unknown.
        executorId: its executor, empty when unknown.
        lastErrorMessage: the last error, empty for none.
        lastError: its traceback.
        lastErrorTime: when it was reported, -1 for never.
        recent_errors: oldest first.
        unhealthy: it fails more often than `spark.penstock.receiver.maxRestarts` allows.
        given_up: it is not relaunched any more.
        lost_blocks: stored blocks that a batch needed and that were lost.
        lost_records: records in the lost blocks.
        last_log_lines: the last lines of the log of the receiver's process when it last reported an error itself,
            without secrets. None from a process that was killed: Spark's log of its executor has them.
        source: the last report of the launch that runs, ``None`` unless its receiver reports.
        times: where the time of this launch has gone, as of its last report.
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
    last_log_lines: tuple[str, ...] = ()
    source: SourceStatus | None = None
    times: StoreTimes | None = None


@frozen
class StreamingStarted:
    """The context has started."""

    time: int


@frozen
class ReceiverStarted:
    """A receiver registered: for the first time, after a restart or after a relaunch."""

    receiverInfo: ReceiverInfo


@frozen
class ReceiverError:
    """A receiver reported an error, or its process died."""

    receiverInfo: ReceiverInfo


@frozen
class ReceiverStopped:
    """A receiver stopped; it may be relaunched."""

    receiverInfo: ReceiverInfo


@frozen
class BatchSubmitted:
    """A batch's jobs were submitted and wait to run."""

    batchInfo: BatchInfo


@frozen
class BatchStarted:
    """The first job of a batch started."""

    batchInfo: BatchInfo


@frozen
class BatchCompleted:
    """The last job of a batch ended, successfully or not."""

    batchInfo: BatchInfo


@frozen
class OutputOperationStarted:
    """The job of an output operation started."""

    outputOperationInfo: OutputOperationInfo


@frozen
class OutputOperationCompleted:
    """The job of an output operation ended, successfully or not."""

    outputOperationInfo: OutputOperationInfo


@frozen
class CheckpointFailed:
    """Several consecutive checkpoints could not be written: a recovery would use an older one.

    Attributes:
        time: time of the last failure.
        failures: consecutive failures.
        reason: error of the last one.
    """

    time: int
    failures: int
    reason: str


@frozen
class StopProgress:
    """The context entered a phase of stopping, or one of the remaining batches completed.

    Attributes:
        time: when this was reported.
        phase: in this order ``receivers``, ``batches``, ``jobs``, ``checkpoint``, ``release``, ``files``,
            ``write-ahead log``, ``completed outputs`` (if these are logged) and ``listeners``.
        batches_left: batches that have not completed.
    """

    time: int
    phase: str
    batches_left: int


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

#: Event class → name of the callback and hook.
HOOK_OF: dict[type, str] = {kind: f"on{kind.__name__}" for kind in Event.__args__}
