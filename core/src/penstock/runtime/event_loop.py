"""A queue of events and the one thread that handles them.

Owns the order of events. Never drops one while it runs, never dies of a handler's error. Handlers run on its thread.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.errors import StreamingStateError
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("event_loop")

E = TypeVar("E")


class EventLoop(Generic[E]):
    """Handle events one at a time, first in, first out.

    Args:
        name: of the thread.
        on_receive: handles one event.
        on_error: is told what a handler raised; the loop goes on.
    """

    def __init__(self, name: str, on_receive: Callable[[E], None], on_error: Callable[[BaseException], None]) -> None:
        self._on_receive, self._on_error = on_receive, on_error
        # None ends the loop.
        self._events: queue.SimpleQueue[E | None] = queue.SimpleQueue()
        self._thread = EngineThread(name, self._run)
        self._stopped = False

    def start(self) -> None:
        """Start the thread.

        Raises:
            StreamingStateError: the loop was started or stopped before.
        """
        if self._stopped or self._thread.ident is not None:
            raise StreamingStateError(f"the event loop {self._thread.name} can be started only once")
        self._thread.start()

    def post(self, event: E) -> None:
        """Add an event; ignored after ``stop``."""
        if not self._stopped:
            self._events.put(event)

    def stop(self, timeout_s: float | None = None, *, drain: bool = False) -> None:
        """Let the event at hand finish, forget the others, wait for the thread. Harmless when repeated.

        Args:
            timeout_s: the longest wait for the thread.
            drain: handle the events that are there before the end.
        """
        if not drain:
            self._stopped = True
        self._events.put(None)
        self._thread.finish(timeout_s)
        self._stopped = True

    def _run(self) -> None:
        while (event := self._events.get()) is not None and not self._stopped:
            try:
                self._on_receive(event)
            except BaseException as error:
                self._tell(error)

    def _tell(self, error: BaseException) -> None:
        try:
            self._on_error(error)
        # No callback ends the loop, this one neither.
        except BaseException as second:
            log.error("a loop's error was not taken", loop=self._thread.name, exc_info=second)
