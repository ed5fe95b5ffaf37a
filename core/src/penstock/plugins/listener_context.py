"""``ListenerContext``: what a plugin's listeners may see of a running program, and what they may do to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from attrs import frozen

from penstock.listen.events import BatchInfo, ReceiverInfo
from penstock.listen.registered_listener import ListenerCounts
from penstock.plugins.specs import RateEstimator

T = TypeVar("T")

#: The role of a node in the graph: it brings records in, computes a stream from others, or runs jobs on its parent.
Role: TypeAlias = Literal["input", "transformation", "output"]


@frozen
class ReceiverStreamInfo:
    """An input stream that has a receiver.

    Attributes:
        stream_id: its id in ``BatchInfo.streamIdToInputInfo`` and ``ReceiverInfo.streamId``.
        name: the one given by ``setName``, or else ``<receiver type>-<stream id>``.
        receiver_type: the receiver's class, without its module.
    """

    stream_id: int
    name: str
    receiver_type: str


@frozen
class DStreamInfo:
    """One node of the DStream graph.

    Attributes:
        number: position in the order in which the program made its streams.
        type: the class, such as ``ReceiverInputDStream``; for people, because a plugin may add classes of its own.
        name: given by ``setName``; empty when there is none.
        call_site: file and line where the program made it.
        parents: numbers of the streams it is computed from; empty for an input stream.
        stream_id: an input stream's id in ``BatchInfo.streamIdToInputInfo``; ``None`` for all others.
        role: ``input``, ``transformation`` or ``output`` (an output operation).
    """

    number: int
    type: str
    name: str
    call_site: str
    parents: tuple[int, ...]
    stream_id: int | None = None
    role: Role = "transformation"


@frozen
class StorageInfo:
    """The blocks, buffers and logs of a program, in bytes.

    Attributes:
        blocks: number of stored blocks that are not cleaned up: those of the backlog, and processed ones that windows,
            state or checkpoints still need.
        block_bytes: their size, on the executors' disks or in the receiver write-ahead log.
        buffered_bytes: records in the memory of active receivers, as of their last reports.
        driver_log_bytes: the driver write-ahead log; ``None`` without checkpoints.
        checkpoint_ms: when the content of the last written checkpoint was gathered, ms since the epoch; ``None``
            without checkpoints.
        checkpoint_failures: consecutive checkpoints that could not be written.
        failed_batches: number of failed batches that wait to run again.
        oldest_failed_ms: batch time of the oldest of them.
    """

    blocks: int = 0
    block_bytes: int = 0
    buffered_bytes: int = 0
    driver_log_bytes: int | None = None
    checkpoint_ms: int | None = None
    checkpoint_failures: int = 0
    failed_batches: int = 0
    oldest_failed_ms: int | None = None


@runtime_checkable
class ListenerContext(Protocol):
    """The handle that the hook ``listeners(context)`` gets: all that a listener plugin needs of the engine.

    It is valid from that call until the StreamingContext has stopped. Every method may be called from any thread and
    returns at once, unless its description says otherwise. After the stop commands have no effect.
    """

    @property
    def application_name(self) -> str:
        """The Spark application's name."""

    @property
    def application_id(self) -> str:
        """The Spark application's id."""

    @property
    def spark_ui_url(self) -> str:
        """The address of Spark's own UI; empty when it is off."""

    @property
    def batch_interval_ms(self) -> int:
        """Milliseconds between two batches."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """Every key of the Spark configuration with its value, as text; read-only."""

    def options(self, prefix: str, options: type[T]) -> T:
        """Read a plugin's own options, whose keys begin with a prefix such as ``spark.penstock.<plugin>.``.

        Types, defaults and validators come from ``options``, an attrs class.

        Raises:
            ConfigurationError: an option is unknown or missing, or its value is invalid.
        """

    @property
    def receiver_streams(self) -> Sequence[ReceiverStreamInfo]:
        """The input streams that have a receiver, by stream id."""

    def graph(self) -> Sequence[DStreamInfo]:
        """Describe every stream that an output operation reaches, in the order in which the program made them."""

    def now_ms(self) -> int:
        """The clock of batch times and events, ms since the epoch. It follows the wall clock and never goes back."""

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        """Return the state of each receiver, by stream id."""

    def backlog_bytes(self) -> int:
        """Bytes that receivers have stored and no batch has processed."""

    def storage(self) -> StorageInfo:
        """Return what the program stores."""

    def listener_counts(self) -> Sequence[ListenerCounts]:
        """Return what became of the events of every listener, plugins' and the program's."""

    def executor_backlogs(self) -> Mapping[str, int]:
        """Bytes of unprocessed blocks by the id of the executor that stores them.

        Empty with the receiver write-ahead log, whose blocks every executor can read.
        """

    def rate_limit(self, stream_id: int) -> float | None:
        """The rate limit of a stream's receiver, records/s; ``None`` for no limit."""

    def set_rate(self, stream_id: int, rate: float) -> None:
        """Set the rate of a stream's receiver, records/s above zero; an id of another stream is ignored.

        The configured maximum still applies. The rate survives a relaunch of the receiver, and a restart from a
        checkpoint.
        """

    def rate_estimator(self, stream_id: int) -> RateEstimator | None:
        """Return the configured rate estimator of a receiver stream; the same object on every call.

        Its ``compute`` never raises, and returns ``None`` instead of an invalid rate; errors are logged. It has the
        state that a checkpoint saved, and its state is saved in this run's. ``initial_rate`` is the rate to set before
        the first batch: the configured one, or else the estimator's; ``None`` leaves the rate as it is. Without
        ``spark.streaming.backpressure.enabled`` there is no estimator: ``None``.

        Raises:
            UnknownNameError: no plugin offers the estimator named by ``spark.streaming.backpressure.rateEstimator``.
            ConfigurationError: an option of the estimator is invalid, or the stream has no receiver.
            PluginError: the estimator cannot be created.
        """

    def attributed_delay(self, stream_id: int, batch: BatchInfo) -> int | None:
        """Return a stream's part of a batch's processing delay, ms: the ``processingDelay`` for its rate estimator.

        Receiver streams share the delay in proportion to their records; a stream that has an equal part of the records
        or more is charged the whole delay. ``None`` when the batch has not completed.
        """
        if batch.processingDelay is None:
            return None
        receivers = {stream.stream_id for stream in self.receiver_streams}
        inputs = batch.streamIdToInputInfo.items()
        counts = {id_: max(info.numRecords, 0) for id_, info in inputs if id_ in receivers}
        return attributed_ms(batch.processingDelay, counts.get(stream_id, 0), counts.values())

    def save(self, name: str, value: Callable[[], Any]) -> Any:
        """Save a value in every checkpoint from now on; return that of the checkpoint that this run recovered from.

        Args:
            name: unique among all plugins: begin it with the plugin's.
            value: returns JSON values; called at each checkpoint on the generator's thread, so it must return at once.
        """

    def executors(self) -> Sequence[str]:
        """The ids of the executors now registered, without the driver. Asks the JVM."""

    def request_executors(self, count: int) -> bool:
        """Ask the cluster manager for this many more executors than are registered. Asks the JVM.

        Returns whether the cluster manager accepted the request; always false in local mode.
        """

    def kill_executor(self, executor_id: str) -> bool:
        """Ask the cluster manager to end an executor, and for no others than those registered. Asks the JVM.

        With ``spark.decommission.enabled`` Spark decommissions the executor: it finishes its tasks before it ends.
        Returns whether the cluster manager accepted the request; always false in local mode.
        """

    def publish_ui(self, url: str, batch_page: str = "") -> None:
        """Set the address that ``StreamingContext.uiWebUrl`` returns; the last one published counts.

        Programs print it for their operator, so that it may contain a token made for this run, but no other secret.
        The descriptions of Spark's jobs name ``batch_page``, the page about one batch with ``{batch_time}`` in place of
        its time in ms; empty for none. Everybody who sees Spark's UI reads it: it must not contain any secret.
        """

    def on_stopped(self, callback: Callable[[], object]) -> None:
        """Have a function called once when the context has stopped, or its start has failed.

        Listeners get no event when the start fails; what they opened in ``listeners(context)`` is closed here. Called
        on the thread that stops the context; an error is logged.
        """


def attributed_ms(processing_ms: int, records: int, counts: Collection[int]) -> int:
    """Return a stream's share of a batch's processing time, as if it had the whole interval to itself.

    The share is proportional to the stream's records, scaled by the number of streams that have any: an equal part of
    the records is charged the whole time, and so is a larger one. Rates therefore converge to equal parts of the
    capacity, and what one stream leaves unused goes to the others.

    Args:
        processing_ms: from the start of the batch's first job to the end of its last.
        records: the stream's records in the batch.
        counts: the records of each rate-controlled stream in the batch, this one included.
    """
    if not any(counts):
        return processing_ms
    part = sum(count > 0 for count in counts) * records / sum(counts)
    return max(round(processing_ms * min(1.0, part)), min(processing_ms, 1))
