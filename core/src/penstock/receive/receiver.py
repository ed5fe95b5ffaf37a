"""``Receiver``: the class that a receiver's author derives from.

The program creates a receiver on the driver; a pickled copy runs in a Python worker on an executor. Every attribute
that this class needs is name-mangled, so that it never collides with an author's attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock.errors import ConfigurationError, StreamingStateError, text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import StorageLevel

    from penstock.listen.events import SourceStatus
    from penstock.receive.receiver_supervisor import ReceiverSupervisor

T = TypeVar("T")


class ReceiverNotRunningError(StreamingStateError, AttributeError):
    """A receiver was used before it runs. An AttributeError, so that ``hasattr`` works on its properties."""


class Receiver(Generic[T]):
    """Reads records from a source and stores them.

    Override ``onStart`` and ``onStop``; both must return promptly. Call ``store``, ``store_all`` or ``store_arrow``
    from any thread, from ``onStart`` on.

    Order of calls in one run: ``onStart``, the ``store``s and their ``on_stored``, ``onStop``, the last ``on_stored``,
    ``on_drained``. After a restart the same instance runs again. A thread of the receiver that ends with an exception
    restarts it.

    Attributes:
        storageLevel: accepted for compatibility with Spark and without effect: a block is one file on the executor's
            disk. A level that asks for a second copy is warned about at the start.
    """

    storageLevel: StorageLevel | None = None
    __supervisor: ReceiverSupervisor | None = None

    def onStart(self) -> None:
        """Start receiving: open connections, start threads. Must return promptly.

        An exception ends the receiver's task, and the driver relaunches the receiver. Call ``restart`` instead where
        trying again in the same process is enough. A stop that comes meanwhile makes ``isStopped`` true and every
        ``store`` raise.
        """
        raise TypeError(f"{type(self).__name__} must override onStart")

    def onStop(self) -> None:
        """Stop receiving and wake blocked reads. Must return promptly.

        Buffered records are stored after this method returns, so ``on_stored`` callbacks may still follow. Keep open
        the resources that they need, and close them in ``on_drained``.
        """

    def on_drained(self) -> None:
        """Called once per run after ``onStop``, when every record is accepted or lost and its ``on_stored`` called.

        Override it to close what acknowledgements need. Must return promptly. It is not called if ``onStop`` did not
        return, nor when the process dies.
        """

    def preferredLocation(self) -> str | None:
        """Return the host to run on, ``None`` for any."""
        return None

    def on_rate_change(self, rate: float | None) -> None:
        """Called when the rate limit changes: records/s, ``None`` for no limit.

        Override it to pull less from the source instead of waiting in ``store``.
        """

    def store(self, record: T, on_stored: Callable[[BaseException | None], object] | None = None) -> None:
        """Store one record: buffered, rate-limited, cut into blocks by time. The buffer is lost with the process.

        Args:
            record: any object that can be pickled.
            on_stored: called once: with ``None`` when the record is stored and accepted by the driver, so that it can
                be acknowledged upstream, or with the error for which it is lost. Called in the order of the records on
                a thread that stores blocks, possibly after ``onStop``. It must be quick and must not store.

        Raises:
            ReceiverStoppedError: the receiver is not running; the record was not stored.
        """
        self.__running().store(record, on_stored)

    def store_all(self, records: Iterable[T], metadata: dict[str, Any] | None = None) -> None:
        """Store records reliably: return once they are stored and accepted by the driver. Rate-limited.

        Order is preserved. Records that exceed a burst of the rate limit, or the bounds of the buffer, become several
        blocks. An iterator is read block by block: if it raises, the complete blocks before stay stored, but not the
        records read since then.

        Args:
            records: any number, also none; not text, bytes or a mapping.
            metadata: JSON values to save with the last block of the call. A receiver that finds them with a stored
                block knows that all records of the call are stored.

        Raises:
            TypeError: ``records`` is text, bytes or a mapping; nothing was stored.
            ReceiverStoppedError: the receiver is not running; some of the records may be stored.
            StoreError: the records could not be stored or were not accepted.
        """
        self.__running().store_all(records, metadata)

    def store_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        metadata: dict[str, Any] | Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        """Store a columnar batch reliably, as ``store_all`` does.

        A batch of one column reads as its values, one of several columns as ``pyspark.sql.Row``s.

        Args:
            batch: with at least one column.
            metadata: JSON values to save with the last block of the call; or a function that returns those of each
                block, called with the number of rows of the batch up to the block's end.

        Raises:
            ReceiverStoppedError: the receiver is not running; some of the rows may be stored.
            StoreError: the batch could not be stored or was not accepted.
        """
        self.__running().store_arrow(batch, metadata)

    def fetch_hint(self, most: int) -> int:
        """Return how many records to fetch next, 1 to ``most``: what the rate limit lets through in a block interval.

        A receiver that fetches more holds them until they may be stored, and meanwhile their lease may expire.
        """
        state = self.__running().state
        if state.is_paused:
            return 1
        return most if state.rate is None else max(1, min(most, int(state.rate * self.block_interval_ms / 1000)))

    def report_source(self, status: SourceStatus) -> None:
        """Report how far the receiver is behind its source, for ``ReceiverInfo.source`` and what shows it.

        Cheap enough for any rate of calls: the newest status goes to the driver at most once per second. Report while
        the source is idle as well, since an old lag looks like a problem.
        """
        self.__running().report_source(status)

    def reportError(self, message: str, error: BaseException | None = None) -> None:
        """Report an error, as one line, to the driver, which posts ``onReceiverError``; the receiver continues."""
        self.__running().report_error(message, error)

    def restart(self, message: str, error: BaseException | None = None, delay_ms: int | None = None) -> None:
        """Stop the receiver and, after a delay, start it again in the same process. Returns at once.

        Use it when the source is unreachable: the order is ``onStop``, ``on_drained``, the delay, ``onStart``. The
        default delay is ``spark.streaming.receiverRestartDelay``, doubling with each restart until a block is stored.
        """
        self.__running().restart(message, error, delay_ms)

    def stop(self, message: str, error: BaseException | None = None) -> None:
        """Stop the receiver and its task. Returns at once. The driver relaunches the receiver, possibly elsewhere.

        With an error, the stop counts against the failure budget.
        """
        self.__running().stop_soon(message, error)

    def isStarted(self) -> bool:
        """Return whether ``onStart`` was called and the receiver was not stopped since."""
        return self.__supervisor is not None and self.__supervisor.state.is_started

    def isStopped(self) -> bool:
        """Return whether the receiver was stopped, for good or until a restart."""
        return self.__supervisor is not None and self.__supervisor.state.is_stopped

    @property
    def streamId(self) -> int:
        """The id of the receiver's input stream, the same in every launch; with ``application_id`` unique."""
        return self.__running().stream_id

    @property
    def application_id(self) -> str:
        """Spark's id of the application: the same in every launch, and another one after a recovery."""
        return self.__running().application_id

    @property
    def position(self) -> Mapping[str, Any]:
        """The merged metadata of all accepted blocks of the stream, in which later values replace earlier ones.

        Read when the receiver starts, restarts or is relaunched; empty if no block had any. It survives the driver if
        the program has a checkpoint directory. A receiver that resumes there stores no record twice.
        """
        return self.__running().position

    @property
    def rate_limit(self) -> float | None:
        """Records/s now in force, ``None`` for no limit."""
        return self.__running().state.rate

    @property
    def block_interval_ms(self) -> int:
        """The interval at which buffered records become a block: a good pace for calls of ``store_all``."""
        return self.__running().block_interval_ms

    def _penstock_attach(self, supervisor: ReceiverSupervisor) -> None:
        if self.__supervisor is not None:
            raise StreamingStateError(
                f"this {type(self).__name__} runs already: each launch needs an instance of its own"
            )
        self.__supervisor = supervisor

    def __running(self) -> ReceiverSupervisor:
        if self.__supervisor is None:
            raise ReceiverNotRunningError(
                f"{type(self).__name__} is not running yet: call store, restart, stop and reportError from onStart on"
            )
        return self.__supervisor


def check_picklable(receiver: Receiver[Any], owner: str = "") -> bytes:
    """Pickle a receiver as Spark does; raises ``ConfigurationError``, which names the attribute at fault.

    ``owner`` says in the message which receiver it is, such as `` of stream 3``.
    """
    # Imports all of PySpark.
    from pyspark import cloudpickle

    what = f"receiver {type(receiver).__name__}{owner} cannot be sent to an executor"
    try:
        return cast(bytes, cloudpickle.dumps(receiver))
    except Exception as error:
        first = error
    for name, value in vars(receiver).items():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            raise ConfigurationError(
                f"{what}: its attribute {name!r} ({type(value).__name__}) cannot be pickled: {text_of(error)}. Create "
                "it in onStart, not in __init__."
            ) from None
    raise ConfigurationError(f"{what}: {text_of(first)}") from None
