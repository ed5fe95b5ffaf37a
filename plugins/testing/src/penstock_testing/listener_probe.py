"""``ListenerProbe`` shows the checks a listener's totals and its ``Backend``, the system that it exports to."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Backend(ABC):
    """The system that a listener under test exports to, owned by the test."""

    @abstractmethod
    def received(self) -> int:
        """The number of completed batches that arrived."""

    @abstractmethod
    def cut(self) -> None:
        """Refuse connections and data, as a crashed backend does. ``heal`` ends the outage."""

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
        return self._received

    def cut(self) -> None:
        self._is_cut = True

    def heal(self) -> None:
        self._is_cut = False


class ListenerProbe:
    """A result of ``make(context)`` with which the checks see more than the commands to the context.

    Args:
        listeners: the listener, or several.
        snapshot: returns JSON values that follow from the events alone. The checks compare these names with the events:
            ``batches`` (completed), ``failed_batches``, ``records``, ``stream_records`` (by stream id),
            ``receiver_errors``, ``last_batch`` (time of the batch that completed last). ``series`` is the number of
            metric series. ``handled`` and ``dropped`` count the events of a listener with a queue of its own.
        backend: the system that the listeners export to.
    """

    def __init__(
        self,
        listeners: object,
        snapshot: Callable[[], Mapping[str, Any]] | None = None,
        backend: Backend | None = None,
    ) -> None:
        several = isinstance(listeners, Iterable) and not isinstance(listeners, str)
        self.listeners: list[object] = list(listeners) if several else [listeners]  # type: ignore[call-overload]
        self.snapshot = snapshot
        self.backend = backend
