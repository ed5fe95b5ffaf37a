"""``AsyncReceiver``: a receiver with an event loop.

Owns the loop, on the receiver's thread, and the cancelling of ``receive`` when the receiver stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import abstractmethod
from typing import TypeVar

from penstock.receive.thread_receiver import OneThreadReceiver

T = TypeVar("T")


class AsyncReceiver(OneThreadReceiver[T]):
    """A receiver with an event loop: write ``async def receive``; stopping cancels it.

    What ``receive`` raises restarts the receiver with back-off; when it returns, the source has ended. ``store…`` block
    the loop while the rate limit or a full buffer holds them; where that matters, await them through
    ``asyncio.to_thread``.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[None] | None = None

    @abstractmethod
    async def receive(self) -> None:
        """Receive until cancelled."""

    def onStop(self) -> None:
        """Cancel ``receive`` and give it some time to end."""
        # In this order: a loop that comes up meanwhile sees the event.
        if self._ended is not None:
            self._ended.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            # A loop that is closed has ended by itself.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        super().onStop()

    def run_receive(self, ended: threading.Event) -> None:
        """Run ``receive`` on a loop of its own."""

        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            # Stopped before the loop was there to be told.
            if not ended.is_set():
                await self.receive()

        asyncio.run(main())
