"""A receiver's own threads: their exceptions, which Python only prints, and stores that block one of them for long."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from penstock.receive.store_timer import StoreTimer
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

if TYPE_CHECKING:
    from penstock.receive.receiver import Receiver

log = get_logger("receiver")

# Shorter than the keepalive intervals of common protocols.
_LONG_MS = 5000


class WaitingStores:
    """Notices a store of a receiver, whose class is in ``module``, that waits for long on a thread with other duties.

    A client's thread, or one with an event loop, also answers keepalives: the server may close the connection.
    """

    def __init__(self, timer: StoreTimer, module: str, stream_id: int) -> None:
        self._timer = timer
        self._module = module.partition(".")[0]
        self._stream_id = stream_id
        self._warned = False

    def check(self) -> None:
        """Log the first store that waits for long. Called every block interval."""
        for thread, held_ms in () if self._warned else self._timer.held_ms():
            if not self._warned and held_ms >= _LONG_MS and self._has_other_duties(thread):
                self._warned = True
                log.warning(
                    "store blocks a client's thread",
                    stream_id=self._stream_id,
                    thread=thread.name,
                    held_ms=round(held_ms),
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


_lock = threading.Lock()
_watched: tuple[ThreadErrors, ...] = ()
_previous: Callable[[Any], object] = threading.__excepthook__


class ThreadErrors:
    """Calls ``on_error`` with the name and error of a thread that a receiver started, on that thread.

    An exception belongs to the receiver whose code is on its traceback, or to the only receiver of the process if the
    thread is newer. All other exceptions go to the previous hook.
    """

    def __init__(self, receiver: Receiver[Any], on_error: Callable[[str, BaseException], object]) -> None:
        self._receiver = receiver
        self.on_error = on_error
        self._before: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def start(self) -> None:
        """Watch the threads that are started from now on. Idempotent."""
        global _watched, _previous
        with _lock:
            if self in _watched:
                return
            self._before = weakref.WeakSet(threading.enumerate())
            if not _watched:
                _previous, threading.excepthook = threading.excepthook, _on_exception
            _watched = (*_watched, self)

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        global _watched
        with _lock:
            # A hook that was set meanwhile stays; it may call this one, which then passes everything on.
            if _watched == (self,) and threading.excepthook == _on_exception:
                threading.excepthook = _previous
            _watched = tuple(watch for watch in _watched if watch is not self)

    def owns(self, thread: threading.Thread, traceback: TracebackType | None) -> bool:
        """Whether an exception on a thread is the receiver's."""
        while traceback is not None:
            if any(value is self._receiver for value in traceback.tb_frame.f_locals.values()):
                return True
            traceback = traceback.tb_next
        return _watched == (self,) and thread not in self._before


def _on_exception(args: threading.ExceptHookArgs) -> None:
    thread, error = args.thread, args.exc_value
    if thread is not None and error is not None and not isinstance(thread, EngineThread):
        for watch in _watched:
            if watch.owns(thread, args.exc_traceback):
                watch.on_error(thread.name, error)
                return
    _previous(args)
