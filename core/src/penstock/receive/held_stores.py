"""Notices a ``store`` that waits for long on a thread of a client library, which may have other duties there.

Such a thread answers the server's keepalives, for instance: while a store holds it, the server may close the
connection. On the receiver's own threads waiting is what a store is meant to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("receiver")

# Shorter than the keepalive intervals of common protocols.
_LONG_MS = 5000
# Its threads run what somebody gave them.
_POOL = "concurrent.futures.thread"


class HeldStores:
    """The stores that wait.

    Args:
        clock: times the waits.
        module: the module of the receiver's class; its threads may wait.
        stream_id: names the stream in the log.
    """

    def __init__(self, clock: Clock, module: str, stream_id: int) -> None:
        self._clock, self._module, self._stream_id = clock, module.partition(".")[0], stream_id
        # Since when (monotonic ms), by thread.
        self._since: dict[threading.Thread, float] = {}
        self._warned = False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """The caller's thread waits in this block."""
        thread = threading.current_thread()
        if not self._warned and _has_other_duties(thread, self._module):
            self._since[thread] = self._clock.monotonic_ms()
        try:
            yield
        finally:
            self._since.pop(thread, None)

    def check(self) -> None:
        """Log the first store that waits for long. Called every block interval."""
        if not self._since or self._warned:
            return
        now_ms = self._clock.monotonic_ms()
        for thread, since_ms in list(self._since.items()):
            if now_ms - since_ms >= _LONG_MS:
                self._warned = True
                log.warning(
                    "store blocks a client's thread",
                    stream_id=self._stream_id,
                    thread=thread.name,
                    held_ms=round(now_ms - since_ms),
                    advice="the rate limit or a full buffer holds it, so the client cannot answer its server: "
                    "use penstock.spi.StoreQueue, or astore in an AsyncReceiver",
                )
                return


def _has_other_duties(thread: threading.Thread, module: str) -> bool:
    """Whether the current thread runs an event loop, or code that neither the engine nor the receiver started."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    if isinstance(thread, EngineThread) or thread is threading.main_thread():
        return False
    outermost = ""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        outermost, frame = outermost if name == "threading" else name, frame.f_back
    return outermost.partition(".")[0] != module and outermost != _POOL
