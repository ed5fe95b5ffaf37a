"""Exceptions on threads that a receiver has started itself: without this module Python only prints them.

``threading.excepthook`` is one for the process, and a thread does not know who started it. An exception belongs to the
receiver whose code is on its traceback. Otherwise it belongs to the only receiver that runs in the process if the
thread did not exist before that receiver: in a Python worker of Spark there is one receiver. Everything else is left to
the hook that was there before.
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

#: Called with the name of the thread and the exception.
OnThreadError = Callable[[str, BaseException], object]


class ThreadErrors:
    """Watches the threads of one receiver from ``start`` to ``stop``, both idempotent.

    Args:
        receiver: its threads are watched.
        on_error: called on the thread that ends.
    """

    def __init__(self, receiver: Receiver[Any], on_error: OnThreadError) -> None:
        self._receiver, self.on_error = receiver, on_error
        self._before: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def start(self) -> None:
        """Watch the threads that are started from now on."""
        if self not in _hook.watched:
            self._before = weakref.WeakSet(threading.enumerate())
            _hook.add(self)

    def stop(self) -> None:
        """Watch no longer."""
        _hook.remove(self)

    def is_new(self, thread: threading.Thread) -> bool:
        """Whether a thread did not exist before the receiver."""
        return thread not in self._before

    def is_in(self, traceback: TracebackType | None) -> bool:
        """Whether one of the receiver's own functions is on a traceback."""
        while traceback is not None:
            if any(value is self._receiver for value in traceback.tb_frame.f_locals.values()):
                return True
            traceback = traceback.tb_next
        return False


class _Hook:
    """The process's ``threading.excepthook`` while a receiver runs."""

    def __init__(self) -> None:
        self.watched: list[ThreadErrors] = []
        self._lock = threading.Lock()
        self._previous: Callable[[Any], object] = threading.__excepthook__

    def add(self, watch: ThreadErrors) -> None:
        with self._lock:
            if not self.watched:
                self._previous, threading.excepthook = threading.excepthook, self._on_exception
            self.watched = [*self.watched, watch]

    def remove(self, watch: ThreadErrors) -> None:
        with self._lock:
            was_watched, self.watched = bool(self.watched), [each for each in self.watched if each is not watch]
            # A hook that was set meanwhile stays; it may call this one, which then passes everything on.
            if was_watched and not self.watched and threading.excepthook == self._on_exception:
                threading.excepthook = self._previous

    def _on_exception(self, args: threading.ExceptHookArgs) -> None:
        watch = self._owner(args)
        if watch is None or args.exc_value is None or args.thread is None:
            self._previous(args)
        else:
            watch.on_error(args.thread.name, args.exc_value)

    def _owner(self, args: threading.ExceptHookArgs) -> ThreadErrors | None:
        watched, thread = self.watched, args.thread
        if thread is None or isinstance(thread, EngineThread):
            return None
        for watch in watched:
            if watch.is_in(args.exc_traceback):
                return watch
        return watched[0] if len(watched) == 1 and watched[0].is_new(thread) else None


_hook = _Hook()
