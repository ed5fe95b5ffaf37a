"""``ThreadReceiver``: a receiver with one thread, and what it shares with ``AsyncReceiver``.

Owns the thread: it starts in ``onStart``, is told to end in ``onStop``, and what ``receive`` raises on it restarts the
receiver.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import TypeVar

from penstock.errors import ReceiverStoppedError, StreamingStateError, text_of
from penstock.receive.receiver import Receiver
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("receiver")

T = TypeVar("T")

# How long the end of the thread is waited for when the receiver stops.
_JOIN_S = 10.0


class OneThreadReceiver(Receiver[T], ABC):
    """A receiver whose work runs on one thread of its own."""

    _ended: threading.Event | None = None
    _thread: EngineThread | None = None

    @abstractmethod
    def run_receive(self, ended: threading.Event) -> None:
        """Receive until ``ended`` is set. What it raises restarts the receiver."""

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
            self.run_receive(ended)
            if not ended.is_set():
                log.info("receive returned: the source has ended", stream_id=self.streamId)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if ended.is_set() or isinstance(error, ReceiverStoppedError):
                log.debug("receive ended by stop", stream_id=self.streamId, error=text_of(error))
            else:
                self.restart(f"Error receiving data: {text_of(error)}", error)


class ThreadReceiver(OneThreadReceiver[T]):
    """A receiver with one thread: write ``receive``, it runs on a supervised thread.

    What ``receive`` raises restarts the receiver with back-off; when it returns, the source has ended and nothing more
    comes. Override ``onStop`` (and call this one's) only to wake a read that blocks.
    """

    @abstractmethod
    def receive(self) -> None:
        """Receive until ``wait`` or ``isStopped`` says to stop."""

    def run_receive(self, ended: threading.Event) -> None:
        """Call ``receive``."""
        self.receive()
