"""``StreamingContextState``; and ``Termination``, which ``awaitTermination`` waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from penstock.errors import BatchFailedError, StreamingStateError

OnBatchError = Callable[[BatchFailedError], object]


class StreamingContextState(Enum):
    """State of a StreamingContext; it never goes back."""

    INITIALIZED = "initialized"
    ACTIVE = "active"
    STOPPED = "stopped"

    def check_can_build(self, what: str, *, is_loaded: bool) -> None:
        """Raise ``StreamingStateError`` if a context in this state, or loaded from a checkpoint, takes no streams."""
        if is_loaded:
            raise StreamingStateError(
                f"{what}: this context was recovered from a checkpoint with its saved streams; to add streams, create "
                "them in the setupFunc of getOrCreate and set spark.penstock.checkpoint.rebuild=true"
            )
        if self is not StreamingContextState.INITIALIZED:
            since = "starting" if self is StreamingContextState.ACTIVE else "stopping"
            raise StreamingStateError(
                f"{what}: Adding new inputs, transformations, and output operations after {since} a context "
                "is not supported: define all streams before start()"
            )


class Termination:
    """Whether a context has ended, and with which error. Any thread may use it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: Whether the context has ended.
        self.has_ended = False
        # The first and the last error, and their number; `wait` raises them at once.
        self._first: BaseException | None = None
        self._last: BaseException | None = None
        self._count = 0
        # Number of errors that `wait` has raised, or passed over, per thread.
        self._raised = threading.local()
        #: The error that ended the context, which every ``wait`` raises then.
        self.final_error: BaseException | None = None

    def fail(self, error: BaseException, *, overrides: bool = False) -> None:
        """Have ``wait`` raise an error at once: the first reported error, unless a later one overrides it.

        Each thread gets an error once. A later call raises the last one of those reported since, or waits for one.
        """
        with self._changed:
            self._first = error if overrides else self._first or error
            self._last = error
            self._count += 1
            self._changed.notify_all()

    def fail_at_end(self, error: BaseException) -> None:
        """Have every ``wait`` raise an error once the context has ended."""
        self.final_error = error

    def end(self) -> None:
        """Report that the context has ended."""
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end or an error, and raise the error; return whether the context has ended in time."""
        with self._changed:
            raised: int = getattr(self._raised, "count", 0)
            self._changed.wait_for(lambda: self.has_ended or self._count > raised, timeout_s)
            self._raised.count = self._count
            if self._count > raised:
                error = self._last if raised else self._first
            else:
                error = self.final_error if self.has_ended else None
            if error is not None:
                raise error
            return self.has_ended
