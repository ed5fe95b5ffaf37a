"""What the metrics store takes besides the engine's events, which say nothing of these.

The monitor makes them from the ``ListenerContext`` of a running application. They are in the event log as well, so that
a history shows them. Field names are those of the engine's events where these have the field.
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
    JobInfo,
    OutputOperationCompleted,
    OutputOperationStarted,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    StopProgress,
    StreamingStarted,
)
from penstock_ui.snapshot import Application, Listener, Storage, Totals


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
    """The application, before its first event."""

    application: Application
    streams: tuple[StreamDescribed, ...] = ()
    graph: tuple[DStreamInfo, ...] = ()


@frozen
class RateChanged:
    """A stream's receiver got another rate limit.

    Attributes:
        time: when the change was seen.
        streamId: the stream's id.
        rate_limit: records/s; ``None`` for no limit.
        reason: the rate estimator's.
    """

    time: int
    streamId: int
    rate_limit: float | None
    reason: str = ""


@frozen
class Sampled:
    """What the engine answered when it was asked.

    Attributes:
        time: when it was asked.
        storage: blocks, logs and checkpoints.
        listeners: the listeners on the bus.
        receivers: the receivers that differ from the last sample.
    """

    time: int
    storage: Storage
    listeners: tuple[Listener, ...] = ()
    receivers: tuple[ReceiverInfo, ...] = ()


@frozen
class JobsRun:
    """Spark jobs of batches that are new, or have changed since they were last seen."""

    jobs: tuple[JobInfo, ...]


@frozen
class CountsCarried:
    """The counts at the begin of a file of the event log, whose older files may have been deleted.

    Attributes:
        time: when the file was begun.
        started: when the context started.
        totals: the application's counts.
        records: the records of each stream.
        starts: the number of starts of each receiver.
        errors: the number of errors of each receiver.
        rate_limits: now in force.
        running: records, counted as received, of the batches that had started and not ended, by batch time.
    """

    time: int
    started: int | None
    totals: Totals
    records: Mapping[int, int] = field(factory=dict)
    starts: Mapping[int, int] = field(factory=dict)
    errors: Mapping[int, int] = field(factory=dict)
    rate_limits: Mapping[int, float | None] = field(factory=dict)
    running: Mapping[int, int] = field(factory=dict)


#: Everything that the metrics store takes, and the event log holds.
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
    | CountsCarried
)
#: The same by name.
KINDS: dict[str, type] = {kind.__name__: kind for kind in Taken.__args__}
