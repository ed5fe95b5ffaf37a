"""Events of the metrics store that the engine does not emit.

The monitor creates them from the ``ListenerContext`` of a running application. The event log contains them as well, so
that a history shows them. Field names follow the engine's events where those have the same field.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from penstock import (
    BatchCompleted,
    BatchStarted,
    BatchSubmitted,
    CheckpointFailed,
    DStreamInfo,
    OutputOperationCompleted,
    OutputOperationStarted,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    SourceStatus,
    StopProgress,
    StoreTimes,
    StreamingStarted,
)
from penstock_ui.snapshot import Application, Listener, Storage, Totals
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.spark_stages import StageRun


@frozen
class StreamDescribed:
    """An input stream of the program.

    Attributes:
        id: the stream's id.
        name: given by ``setName``, or else ``<type>-<id>``.
        type: class of the receiver or of the stream.
        has_receiver: whether it has a receiver.
    """

    id: int
    name: str
    type: str
    has_receiver: bool


@frozen
class ApplicationDescribed:
    """The application, before its first event.

    Attributes:
        application: names, addresses, interval.
        streams: the input streams.
        graph: the DStream graph.
        configuration: Spark's and Penstock's keys, with ``***`` for secrets.
    """

    application: Application
    streams: tuple[StreamDescribed, ...] = ()
    graph: tuple[DStreamInfo, ...] = ()
    configuration: Mapping[str, str] = field(factory=dict)


@frozen
class RateChanged:
    """The rate limit of a stream's receiver changed.

    Attributes:
        time: when the monitor noticed the change.
        streamId: the stream's id.
        rate_limit: records/s; ``None`` for no limit.
        reason: the rate estimator's explanation.
    """

    time: int
    streamId: int
    rate_limit: float | None
    reason: str = ""


@frozen
class Sampled:
    """A sample of the engine's state that no event reports.

    Attributes:
        time: when the monitor took the sample.
        storage: blocks, logs and checkpoints.
        listeners: the listeners on the bus.
        receivers: the receivers that have changed since the last sample, other than in their source and times.
        sources: the statuses of sources that have changed since, by stream.
        times: where the time of receivers has gone since their launch, by stream; sampled less often.
    """

    time: int
    storage: Storage
    listeners: tuple[Listener, ...] = ()
    receivers: tuple[ReceiverInfo, ...] = ()
    sources: Mapping[int, SourceStatus | None] = field(factory=dict)
    times: Mapping[int, StoreTimes] = field(factory=dict)


@frozen
class JobsRun:
    """Spark jobs of batches: new jobs, and jobs that have changed since the last event."""

    jobs: tuple[JobInfo, ...]


@frozen
class StagesRun:
    """The stages of the Spark jobs of a batch. Spark is asked for those of one batch per second, the newest.

    Attributes:
        batch_time: the batch.
        stages: its completed stages.
    """

    batch_time: int
    stages: tuple[StageRun, ...]


@frozen
class CountsCarried:
    """The counts so far, at the start of an event log file: older files may have been deleted.

    Attributes:
        time: when the file was created.
        started: when the context started.
        totals: the application's counts.
        records: the records of each stream.
        starts: the number of starts of each receiver.
        errors: the number of errors of each receiver.
        rate_limits: the current limits, by stream.
        running: records of the running batches by batch time; the totals already count them as received.
    """

    time: int
    started: int | None
    totals: Totals
    records: Mapping[int, int] = field(factory=dict)
    starts: Mapping[int, int] = field(factory=dict)
    errors: Mapping[int, int] = field(factory=dict)
    rate_limits: Mapping[int, float | None] = field(factory=dict)
    running: Mapping[int, int] = field(factory=dict)


#: Every event that the metrics store accepts and the event log contains.
Taken = (
    StreamingStarted
    | ReceiverStarted
    | ReceiverError
    | ReceiverStopped
    | BatchSubmitted
    | BatchStarted
    | BatchCompleted
    | OutputOperationStarted
    | OutputOperationCompleted
    | CheckpointFailed
    | StopProgress
    | ApplicationDescribed
    | RateChanged
    | Sampled
    | JobsRun
    | StagesRun
    | CountsCarried
)
#: The same event classes by name.
KINDS: dict[str, type] = {kind.__name__: kind for kind in Taken.__args__}
