"""``StoreQueue``: a queue between a client's callbacks and ``store``, so that no callback waits.

A client calls back on the thread with which it also answers its server. ``store`` on that thread waits while the rate
limit or a full buffer holds it; the queue waits on a thread of its own instead.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.errors import ReceiverStoppedError
from penstock.runtime.threads import EngineThread

if TYPE_CHECKING:
    from penstock.receive.receiver import Receiver

T = TypeVar("T")

OnStored = Callable[[BaseException | None], object]

# How long a stop waits for the queue to empty: less than spark.penstock.receiver.stopTimeout.
_STOP_S = 4.0


class StoreQueue(Generic[T]):
    """Stores what callbacks give it, in order. Create it in ``onStart``, stop it in ``onStop``.

    Example::

        def onStart(self):
            self.queue = StoreQueue(self, max_records=10_000)
            client.on_message = lambda message: self.queue.put(message.payload)

        def onStop(self):
            client.disconnect()
            self.queue.stop()

    Args:
        receiver: its ``store`` is called, on a thread of the queue.
        max_records: the most that may wait.
    """

    def __init__(self, receiver: Receiver[Any], max_records: int = 10_000) -> None:
        self._receiver = receiver
        self._waiting: queue.Queue[tuple[T, OnStored | None] | None] = queue.Queue()
        self._max_records = max_records
        # Guards the bound and `_stopped`: a stopped queue takes no record.
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = EngineThread(f"{type(receiver).__name__} store queue", self._store_all)
        self._thread.start()

    def put(self, record: T, on_stored: OnStored | None = None) -> bool:
        """Take one record without waiting.

        Args:
            record: the record, which ``store`` gets later.
            on_stored: ``store`` gets it, too; called with an error if the receiver stops before the record is stored.

        Returns:
            Whether it was taken. When the queue is full or stopped it was not: drop it, or have the source send it
            again.
        """
        with self._lock:
            if self._stopped or self._waiting.qsize() >= self._max_records or not self._thread.is_alive():
                return False
            self._waiting.put((record, on_stored))
            return True

    def stop(self) -> bool:
        """Store what waits, as far as the rate limit permits at once; return whether that was done within 4 s."""
        with self._lock:
            self._stopped = True
            self._waiting.put(None)
        return self._thread.finish(_STOP_S)

    def _store_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            record, on_stored = item
            try:
                self._receiver.store(record, on_stored)
            except ReceiverStoppedError as error:
                if on_stored is not None:
                    on_stored(error)
