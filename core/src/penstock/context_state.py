"""``StreamingContextState``; and ``Termination``, which ``awaitTermination`` waits for."""

from __future__ import annotations

import threading
from enum import Enum


class StreamingContextState(Enum):
    """State of a StreamingContext; it never goes back."""

    INITIALIZED = "initialized"
    ACTIVE = "active"
    STOPPED = "stopped"


class Termination:
    """Whether a context has ended, and with which error. Any thread may use it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: Whether the context has ended.
        self.has_ended = False
        # `wait` raises the first at once, and the second at the end, unless there is a first.
        self._error: BaseException | None = None
        self._final_error: BaseException | None = None

    def fail(self, error: BaseException, *, overrides: bool = False) -> None:
        """Have ``wait`` raise an error at once: the first reported error, unless a later one overrides it."""
        with self._changed:
            self._error = error if overrides else self._error or error
            self._changed.notify_all()

    def fail_at_end(self, error: BaseException) -> None:
        """Have ``wait`` raise an error once the context has ended."""
        self._final_error = error

    def end(self) -> None:
        """Report that the context has ended."""
        with self._changed:
            self.has_ended = True
            self._error = self._error or self._final_error
            self._changed.notify_all()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end or an error, and raise the error; return whether the context has ended in time."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended or self._error is not None, timeout_s)
            if self._error is not None:
                raise self._error
            return self.has_ended
