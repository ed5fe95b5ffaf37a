"""``ThreadReceiver`` and ``AsyncReceiver``: receivers whose work is one method, run on a supervised thread."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import ReceiverStoppedError, StreamingStateError, summary_of, text_of
from penstock.receive.receiver import Receiver
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.runtime.tracebacks import raised_at

if TYPE_CHECKING:
    import pyarrow as pa

log = get_logger("receiver")

T = TypeVar("T")

# Maximum time that onStop waits for the thread to end.
_JOIN_S = 10.0
# Time that a stop leaves an AsyncReceiver to acknowledge what it has just stored.
_ACKNOWLEDGE_S = 1.0


class SupervisedThread(Receiver[T], ABC):
    """Base of receivers that work on one thread of their own."""

    __ended: threading.Event | None = None
    __thread: EngineThread | None = None
    # Whether ``receive`` has logged the reason for its return.
    __is_explained = False

    def wait(self, seconds: float) -> bool:
        """Pause for some seconds; return early with ``True`` when the receiver is stopped."""
        return self.__ended is not None and self.__ended.wait(seconds)

    def source_ended(self, reason: str = "") -> None:
        """Log why the source has ended; otherwise the return of ``receive`` is logged as a warning."""
        self.__is_explained = True
        log.info("source ended", stream_id=self.streamId, reason=reason)

    def restart(self, message: str, error: BaseException | None = None, delay_ms: int | None = None) -> None:
        """See ``Receiver.restart``. Afterwards ``receive`` may return."""
        self.__is_explained |= threading.current_thread() is self.__thread
        super().restart(message, error, delay_ms)

    def stop(self, message: str, error: BaseException | None = None) -> None:
        """See ``Receiver.stop``. Afterwards ``receive`` may return."""
        self.__is_explained |= threading.current_thread() is self.__thread
        super().stop(message, error)

    def isStopped(self) -> bool:
        """Return whether the receiver was stopped, so that ``receive`` should return."""
        return super().isStopped() or (self.__ended is not None and self.__ended.is_set())

    def onStart(self) -> None:
        if self.__thread is not None and self.__thread.is_alive():
            raise StreamingStateError(
                f"{type(self).__name__}.receive of the last run has not returned: does onStop wake it?"
            )
        self.__is_explained = False
        ended = self.__ended = threading.Event()
        self.__thread = EngineThread(f"{type(self).__name__}-{self.streamId}", lambda: self.__run(ended))
        self.__thread.start()

    def onStop(self) -> None:
        if self.__ended is not None and self.__thread is not None:
            self.__ended.set()
            self._penstock_wake()
            self.__thread.finish(_JOIN_S)

    @abstractmethod
    def receive(self) -> Any:
        """The author's method."""

    @abstractmethod
    def _penstock_receive(self, ended: threading.Event) -> None:
        """Receive until ``ended`` is set."""

    def _penstock_wake(self) -> None:
        """Wake the thread that receives."""

    def __run(self, ended: threading.Event) -> None:
        try:
            self._penstock_receive(ended)
            if not self.isStopped() and not self.__is_explained:
                name = type(self).__name__
                log.warning(
                    "receive returned, the stream gets no more records",
                    stream_id=self.streamId,
                    receiver=name,
                    advice="raise an error to restart the receiver; if the source has ended, call source_ended() first",
                )
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if self.isStopped() or isinstance(error, ReceiverStoppedError):
                log.debug("receive ended by stop", stream_id=self.streamId, reason=text_of(error))
            else:
                written_in = getattr(inspect.unwrap(type(self).receive), "__code__", None)
                line = raised_at(error, written_in.co_filename if written_in else "")
                self.restart(f"Error receiving data: {summary_of(error)} ({line})", error)


class ThreadReceiver(SupervisedThread[T]):
    """A receiver with one thread: write ``receive``; an error that it raises restarts the receiver with back-off.

    When the source has ended, call ``source_ended`` and return: the receiver stays up and stores nothing more. Override
    ``onStop``, and call the inherited one, only to wake a read that blocks.
    """

    @abstractmethod
    def receive(self) -> None:
        """Receive until ``wait`` or ``isStopped`` returns ``True``."""

    def _penstock_receive(self, ended: threading.Event) -> None:
        self.receive()


class AsyncReceiver(SupervisedThread[T]):
    """A receiver with an event loop: write ``async def receive``. A stop cancels it; its errors restart the receiver.

    ``store``, ``store_all`` and ``store_arrow`` block the event loop while the rate limit or a full buffer holds
    them; ``astore``, ``astore_all`` and ``astore_arrow`` do not. A stop cancels none of the latter. The receiver then
    has a second more to acknowledge what is stored, unless ``receive`` returns earlier because ``isStopped()``.
    """

    __task: asyncio.Task[None] | None = None
    # The ``astore``, ``astore_all`` and ``astore_arrow`` in progress.
    __calls: set[asyncio.Future[None]] | None = None
    __stopping: asyncio.Task[None] | None = None

    @abstractmethod
    async def receive(self) -> None:
        """Receive until cancelled."""

    async def astore(self, record: T, on_stored: Callable[[BaseException | None], object] | None = None) -> None:
        """Store one record as ``store`` does, without blocking the event loop."""
        await self.__call(self.store, record, on_stored)

    async def astore_all(self, records: Iterable[T], metadata: dict[str, Any] | None = None) -> None:
        """Store records as ``store_all`` does, without blocking the event loop."""
        await self.__call(self.store_all, records, metadata)

    async def astore_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        metadata: dict[str, Any] | Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        """Store a columnar batch as ``store_arrow`` does, without blocking the event loop."""
        await self.__call(self.store_arrow, batch, metadata)

    def _penstock_receive(self, ended: threading.Event) -> None:
        async def main() -> None:
            self.__task = asyncio.current_task()
            # A stop before this point has found no task to cancel.
            if not ended.is_set():
                await self.receive()

        asyncio.run(main())

    def _penstock_wake(self) -> None:
        if (task := self.__task) is not None:
            # The loop has ended by itself and is closed.
            with contextlib.suppress(RuntimeError):
                task.get_loop().call_soon_threadsafe(self.__stop, task)

    def __stop(self, task: asyncio.Task[None]) -> None:
        async def cancel() -> None:
            if self.__calls:
                await asyncio.wait(self.__calls)
                await asyncio.wait([task], timeout=_ACKNOWLEDGE_S)
            if self.__calls:
                await asyncio.wait(self.__calls)
            task.cancel()

        # Once receive has returned, the loop ends, and would leave a new task behind.
        if not task.done():
            self.__stopping = task.get_loop().create_task(cancel())

    async def __call(self, store: Callable[..., None], *arguments: object) -> None:
        call: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.__calls is None:
            self.__calls = set()
        self.__calls.add(call)
        try:
            await asyncio.to_thread(store, *arguments)
        finally:
            self.__calls.discard(call)
            call.set_result(None)
