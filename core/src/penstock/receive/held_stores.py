"""Notices a ``store`` that waits for long on a thread of a client library, or on one that runs an event loop.

Such a thread also answers the server's keepalives: while a store holds it, the server may close the connection.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("receiver")

# Shorter than the keepalive intervals of common protocols.
_LONG_MS = 5000


class HeldStores:
    """The stores that wait, of a receiver whose class is in ``module``."""

    def __init__(self, clock: Clock, module: str, stream_id: int) -> None:
        self._clock = clock
        self._module = module.partition(".")[0]
        self._stream_id = stream_id
        # Since when (monotonic ms), by thread.
        self._since: dict[threading.Thread, float] = {}
        self._warned = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """The caller's thread waits in this block."""
        thread = threading.current_thread()
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
            if not self._warned and now_ms - since_ms >= _LONG_MS and self._has_other_duties(thread):
                self._warned = True
                log.warning(
                    "store blocks a client's thread",
                    stream_id=self._stream_id,
                    thread=thread.name,
                    held_ms=round(now_ms - since_ms),
                    advice="the rate limit or a full buffer holds it, so the client cannot answer its server: "
                    "put a queue between the client and store, or use astore in an AsyncReceiver",
                )

    def _has_other_duties(self, thread: threading.Thread) -> bool:
        """Whether a thread runs an event loop, or code that neither the engine nor the receiver started."""
        modules = list[str]()
        frame: FrameType | None = sys._current_frames().get(thread.ident or 0)
        while frame is not None:
            modules.append(str(frame.f_globals.get("__name__", "")).partition(".")[0])
            frame = frame.f_back
        if "asyncio" in modules:
            return True
        if isinstance(thread, EngineThread) or thread is threading.main_thread():
            return False
        # The outermost function. Threads of a pool run submitted work, so waiting is acceptable.
        started_by = next((module for module in reversed(modules) if module != "threading"), "")
        return started_by not in (self._module, "concurrent")
