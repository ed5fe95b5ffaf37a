"""``ListenerProbe``: a listener with what its checks observe; ``Backend``: the system that it exports to."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Backend(ABC):
    """The system that a listener under test exports to, owned by the test."""

    @abstractmethod
    def received(self) -> int:
        """The number of completed batches that it knows of."""

    @abstractmethod
    def cut(self) -> None:
        """Refuse connections and data, as a backend that died. ``heal`` ends it."""

    @abstractmethod
    def heal(self) -> None:
        """Serve again after ``cut``."""

    def close(self) -> None:  # noqa: B027  # optional
        """Release everything. Called once, at the end of the check."""


class MemoryBackend(Backend):
    """A backend in this process."""

    def __init__(self) -> None:
        self._received = 0
        self._is_cut = False
        self._lock = threading.Lock()

    def send(self, batches: int = 1) -> None:
        """Accept batches.

        Raises:
            ConnectionRefusedError: the backend is cut.
        """
        with self._lock:
            if self._is_cut:
                raise ConnectionRefusedError("the backend is cut")
            self._received += batches

    def received(self) -> int:
        """The number of batches sent."""
        return self._received

    def cut(self) -> None:
        """Refuse."""
        self._is_cut = True

    def heal(self) -> None:
        """Accept."""
        self._is_cut = False


class ListenerProbe:
    """What ``make(context)`` of a listener suite returns when the checks are to see more than the context's commands.

    Args:
        listeners: the listener, or several.
        snapshot: what the listeners show, as JSON values that follow from the events alone. These names are compared
            with the events: ``batches`` (completed), ``failed_batches``, ``records``, ``stream_records`` (by stream
            id), ``receiver_errors``, ``last_batch`` (time of the batch that completed last). ``series``: the number of
            metric series. ``handled`` and ``dropped``: events, of a listener with a queue of its own.
        backend: where they export to.
    """

    def __init__(
        self,
        listeners: object,
        snapshot: Callable[[], Mapping[str, Any]] | None = None,
        backend: Backend | None = None,
    ) -> None:
        several = isinstance(listeners, Iterable) and not isinstance(listeners, str)
        self.listeners: list[object] = list(listeners) if several else [listeners]  # type: ignore[call-overload]
        self.snapshot, self.backend = snapshot, backend
