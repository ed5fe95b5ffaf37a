"""Exceptions on threads that a receiver has started itself: without this module Python only prints them.

An exception belongs to the receiver whose code is on its traceback, or to the only receiver of the process if the
thread is newer. Everything else is left to the hook that was there before.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock.runtime.threads import EngineThread

if TYPE_CHECKING:
    from penstock.receive.receiver import Receiver

_lock = threading.Lock()
_watched: tuple[ThreadErrors, ...] = ()
_previous: Callable[[Any], object] = threading.__excepthook__


class ThreadErrors:
    """Watches the threads of one receiver; calls ``on_error`` with the name and error of a thread, on that thread."""

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
        """Watch no longer. Idempotent."""
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
