"""``DeliveryBuffer``: messages on their way from the thread that reads from a broker to the receiver's thread.

A client that pushes messages keeps its connection alive on the thread that reads. That thread must never wait for a
block to be stored, so it puts messages here, and the receiver's thread takes them in batches.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

M = TypeVar("M")


class Delivery(NamedTuple, Generic[M]):
    """A message with the time of its arrival, in seconds since the epoch."""

    message: M
    arrived_s: float
    size_bytes: int


class DeliveryBuffer(Generic[M]):
    """A queue of messages that were delivered in one session with a broker. Thread-safe.

    Args:
        max_messages: the buffer is full when it holds this many messages.
        max_bytes: the buffer is full when its messages have this many bytes.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._deliveries: deque[Delivery[M]] = deque()
        self._bytes = 0
        # ``put`` wakes ``take`` once the buffer holds this many messages.
        self._wanted = 1
        self._is_bounded = True
        self._is_closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._deliveries)

    @property
    def is_full(self) -> bool:
        """Whether a bound is reached."""
        return len(self._deliveries) >= self._max_messages or self._bytes >= self._max_bytes

    @property
    def oldest_s(self) -> float | None:
        """When the first message arrived, in seconds since the epoch; ``None`` when there is none."""
        with self._changed:
            return self._deliveries[0].arrived_s if self._deliveries else None

    def put(self, message: M, size_bytes: int) -> None:
        """Add a message, also to a full buffer. Does not wait. A closed buffer drops the message."""
        with self._changed:
            if self._is_closed:
                return
            self._deliveries.append(Delivery(message, time.time(), size_bytes))
            self._bytes += size_bytes
            if len(self._deliveries) >= self._wanted or self._bytes >= self._max_bytes:
                self._changed.notify_all()

    def await_room(self, timeout_s: float) -> bool:
        """Wait until the buffer is not full, or closed; return false after the timeout."""
        with self._changed:
            return self._changed.wait_for(self._has_room, timeout_s)

    @contextlib.contextmanager
    def unbounded(self) -> Iterator[None]:
        """Let ``await_room`` return at once: for a wait for an answer that comes after the messages."""
        with self._changed:
            self._is_bounded = False
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_bounded = True

    def take(self, most: int, linger_s: float, timeout_s: float) -> list[Delivery[M]]:
        """Take the next messages, in order.

        Wait until the buffer holds ``most`` messages or is full, at the longest until its first message has been there
        for ``linger_s``.

        Args:
            most: the most messages to take, at least 1.
            linger_s: the longest wait after the arrival of the first message.
            timeout_s: the longest wait for a first message.

        Returns:
            The messages; none after the timeout, or when the buffer was closed without an error.

        Raises:
            BaseException: the error with which the buffer was closed.
        """
        with self._changed:
            if self._changed.wait_for(lambda: self._is_closed or len(self._deliveries) > 0, timeout_s):
                self._wanted = most
                self._changed.wait_for(self._is_batch_ready, self._linger_left_s(linger_s))
                self._wanted = 1
            if self._error is not None:
                raise self._error
            taken = list(islice(self._deliveries, most))
            for delivery in taken:
                self._deliveries.popleft()
                self._bytes -= delivery.size_bytes
            self._changed.notify_all()
            return taken

    def close(self, error: BaseException | None = None) -> None:
        """Drop all messages, and make the current and later calls of ``take`` return or raise. Idempotent.

        The broker delivers the dropped messages again: nobody has acknowledged them.

        Args:
            error: error that ``take`` raises; that of the first call counts.
        """
        with self._changed:
            if not self._is_closed:
                self._is_closed = True
                self._error = error
                self._deliveries.clear()
                self._bytes = 0
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._is_closed or not self._is_bounded or not self.is_full

    def _is_batch_ready(self) -> bool:
        return self._is_closed or len(self._deliveries) >= self._wanted or self.is_full

    def _linger_left_s(self, linger_s: float) -> float:
        if not self._deliveries:
            return 0.0
        # A wall clock that steps must not prolong the wait.
        return min(max(self._deliveries[0].arrived_s + linger_s - time.time(), 0.0), linger_s)
