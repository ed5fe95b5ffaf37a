"""``Receiver``: what a plugin's author derives from.

Owns the author's side of the contract: ``onStart`` and ``onStop`` to write, ``store…`` and the rest to call. Everything
behind it is the supervisor's. A receiver is made on the driver, pickled, and runs in a Python worker on an executor:
make threads, sockets and locks in ``onStart``, not in ``__init__``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.errors import StreamingStateError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import StorageLevel

    from penstock.receive.supervisor import ReceiverSupervisor

T = TypeVar("T")


class Receiver(Generic[T]):
    """Gets data from somewhere and stores it.

    Override ``onStart`` and ``onStop``; both must return promptly. Call ``store``, ``store_all`` or ``store_arrow``
    from any thread.

    Attributes:
        storageLevel: kept for programs that set it; a block is one file on the executor's disk, whatever it says. That
            there is no second copy is said once, at the start.
    """

    storageLevel: StorageLevel | None = None
    _supervisor: ReceiverSupervisor | None = None

    def onStart(self) -> None:
        """Start what receives: open connections, start threads. Return promptly."""
        raise TypeError(f"{type(self).__name__} must override onStart")

    def onStop(self) -> None:
        """Stop what receives and wake blocked reads. Return promptly."""

    def preferredLocation(self) -> str | None:
        """The host to run on, if there is a choice."""
        return None

    def on_rate_change(self, rate: float | None) -> None:
        """Called when the rate limit changes; override to pull less instead of waiting in ``store``."""

    def store(self, record: T, on_stored: Callable[[BaseException | None], object] | None = None) -> None:
        """Store one record: buffered, rate-limited, cut into blocks by time. What is buffered dies with the process.

        Args:
            record: anything that pickles.
            on_stored: called once, with ``None`` when the record is stored and accepted by the driver, else with the
                error for which it is lost: what to acknowledge upstream. In the order of the records, on a thread that
                stores blocks: must be quick, and must not store.

        Raises:
            ReceiverStoppedError: the receiver is not running; the record was not stored.
        """
        self._attached().store(record, on_stored)

    def store_all(self, records: Iterable[T], metadata: dict[str, Any] | None = None) -> None:
        """Store records reliably: return once they are stored and accepted by the driver. Rate-limited.

        Order is kept. More records than one burst of the rate limit, or than the bounds on what is buffered, become
        several blocks; of an iterator no more is taken at once than one of them holds.

        Args:
            records: any number, none included.
            metadata: JSON values to keep with the block.

        Raises:
            ReceiverStoppedError: the receiver is not running; an unknown part may be stored.
            StoreError: they could not be stored or were not accepted.
        """
        self._attached().store_all(records, metadata)

    def store_arrow(self, batch: pa.RecordBatch | pa.Table, metadata: dict[str, Any] | None = None) -> None:
        """Store a columnar batch reliably, as ``store_all`` does. One column reads as its values, several as Rows."""
        self._attached().store_arrow(batch, metadata)

    def reportError(self, message: str, error: BaseException | None = None) -> None:
        """Tell the driver of an error; the receiver goes on."""
        self._attached().report_error(message, error)

    def restart(self, message: str, error: BaseException | None = None, delay_ms: int | None = None) -> None:
        """Stop and, after a delay, start again. Returns at once.

        Args:
            message: why.
            error: what caused it.
            delay_ms: between the two; ``spark.streaming.receiverRestartDelay``, doubling, by default.
        """
        self._attached().restart(message, error, delay_ms)

    def stop(self, message: str, error: BaseException | None = None) -> None:
        """Stop the receiver and its task; the driver will launch it anew, maybe elsewhere. Returns at once."""
        self._attached().stop_soon(message, error)

    def isStarted(self) -> bool:
        """Say whether the receiver runs."""
        return self._supervisor is not None and self._supervisor.is_started

    def isStopped(self) -> bool:
        """Say whether the receiver was stopped."""
        return self._supervisor is not None and self._supervisor.is_stopped

    @property
    def streamId(self) -> int:
        """The id of the receiver's input stream."""
        return self._attached().stream_id

    @property
    def rate_limit(self) -> float | None:
        """Records/s now in force, ``None`` for no limit."""
        return self._attached().rate_limit

    @property
    def block_interval_ms(self) -> int:
        """How often single records become a block: a good pace for receivers that gather chunks themselves."""
        return self._attached().block_interval_ms

    def attach(self, supervisor: ReceiverSupervisor) -> None:
        """Called by the supervisor, once."""
        if self._supervisor is not None:
            raise StreamingStateError(f"{type(self).__name__} has a supervisor already")
        self._supervisor = supervisor

    def _attached(self) -> ReceiverSupervisor:
        if self._supervisor is None:
            raise StreamingStateError(
                f"{type(self).__name__} does not run yet: store, restart, stop and the rest work from onStart on"
            )
        return self._supervisor
