"""``Receiver``: what a plugin's author derives from.

Owns the author's side of the contract: ``onStart`` and ``onStop`` to write, ``store…`` and the rest to call. Everything
behind it is the supervisor's. A receiver is made on the driver, pickled, and runs in a Python worker on an executor:
make threads, sockets and locks in ``onStart``, not in ``__init__``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.errors import ReceiverStoppedError, StreamingStateError
from penstock.log import get_logger
from penstock.threads import EngineThread

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import StorageLevel

    from penstock.receive.supervisor import ReceiverSupervisor

log = get_logger("receiver")

T = TypeVar("T")

# How long the end of a receiver's thread is waited for when the receiver stops.
_JOIN_S = 10.0


class Receiver(Generic[T]):
    """Gets data from somewhere and stores it.

    Override ``onStart`` and ``onStop``; both must return promptly. Call ``store``, ``store_all`` or ``store_arrow``
    from any thread.

    Attributes:
        storageLevel: kept for programs that set it; a block is one file on the executor's disk, whatever it says.
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

    def store(self, record: T) -> None:
        """Store one record: buffered, rate-limited, cut into blocks by time. What is buffered dies with the process.

        Raises:
            ReceiverStoppedError: the receiver is not running; the record was not stored.
        """
        self._attached().store(record)

    def store_all(self, records: Iterable[T], metadata: dict[str, Any] | None = None) -> None:
        """Store records reliably: return once they are stored and accepted by the driver. Rate-limited.

        Order is kept. With a rate limit, more records than one burst become several blocks.

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
        """Stop the receiver and its task for good; the driver will launch it anew, maybe elsewhere."""
        self._attached().stop(message, error)

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


class ThreadReceiver(Receiver[T]):
    """A receiver with one thread: write ``receive``, it runs on a supervised thread.

    What ``receive`` raises restarts the receiver with back-off; when it returns, the source has ended and nothing more
    comes. Override ``onStop`` (and call this one's) only to wake a read that blocks.
    """

    _ended: threading.Event | None = None
    _thread: EngineThread | None = None

    def receive(self) -> None:
        """Receive until ``wait`` or ``isStopped`` says to stop."""
        raise TypeError(f"{type(self).__name__} must override receive")

    def wait(self, seconds: float) -> bool:
        """Pause; return early with ``True`` when the receiver is stopped."""
        return self._ended is not None and self._ended.wait(seconds)

    def isStopped(self) -> bool:
        """Say whether the receiver was stopped, or this run of ``receive`` is to end."""
        return super().isStopped() or (self._ended is not None and self._ended.is_set())

    def onStart(self) -> None:
        """Start the thread."""
        if self._thread is not None and self._thread.is_alive():
            raise StreamingStateError(
                f"{type(self).__name__}.receive of the last run has not returned: does onStop wake it?"
            )
        self._ended = threading.Event()
        self._thread = EngineThread(f"{type(self).__name__}-{self.streamId}", self._run)
        self._thread.start()

    def onStop(self) -> None:
        """Tell the thread to end and give it some time to do so."""
        if self._ended is not None and self._thread is not None:
            self._ended.set()
            self._thread.finish(_JOIN_S)

    def _run(self) -> None:
        ended = self._ended
        assert ended is not None
        try:
            self._run_receive(ended)
            if not ended.is_set():
                log.info("receive returned: the source has ended", stream_id=self.streamId)
        except (Exception, asyncio.CancelledError) as error:
            if ended.is_set() or isinstance(error, ReceiverStoppedError):
                log.debug("receive ended by stop", stream_id=self.streamId, error=repr(error))
            else:
                self.restart(f"Error receiving data: {error}", error)

    def _run_receive(self, ended: threading.Event) -> None:
        self.receive()


class AsyncReceiver(ThreadReceiver[T]):
    """A receiver with an event loop: write ``async def receive``; stopping cancels it.

    ``store…`` block the loop while the rate limit or a full buffer holds them; where that matters, await them through
    ``asyncio.to_thread``.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[None] | None = None

    async def receive(self) -> None:  # type: ignore[override]  # the same method, in its asynchronous form
        """Receive until cancelled."""
        raise TypeError(f"{type(self).__name__} must override receive")

    def onStop(self) -> None:
        """Cancel ``receive`` and give it some time to end."""
        loop, task = self._loop, self._task
        if self._ended is not None:
            self._ended.set()
        if loop is not None and task is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        super().onStop()

    def _run_receive(self, ended: threading.Event) -> None:
        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            # Stopped before the loop was there to be told.
            if not ended.is_set():
                await self.receive()

        asyncio.run(main())
