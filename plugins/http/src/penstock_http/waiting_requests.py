"""``WaitingRequests``: requests that were read and are not stored yet. Used on the event loop only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import define, field

from penstock_http.request_columns import RequestDetails


@define(eq=False)
class WaitingRequest:
    """A request whose sender waits for the answer.

    Attributes:
        records: the records of its body, at least one.
        details: columns of the request.
        arrived_s: monotonic.
        stored: done once the records are stored; fails when they cannot be stored.
    """

    records: Sequence[bytes] = field(repr=False)
    details: RequestDetails = field(repr=False)
    arrived_s: float
    stored: asyncio.Future[None] = field(repr=False)


class WaitingRequests:
    """A queue, whose requests are stored in groups.

    Args:
        max_bytes: limit of the bodies in memory.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._queue: deque[WaitingRequest] = deque()
        self._arrived = asyncio.Event()
        #: Number of records in the queue.
        self.num_records = 0

    def has_room(self, num_bytes: int) -> bool:
        """Whether a body of this size may be read. One body always may, whatever its size."""
        return not self._bytes or self._bytes + num_bytes <= self._max_bytes

    @contextmanager
    def reserved(self, num_bytes: int) -> Iterator[None]:
        """Count a body as in memory until the block ends."""
        self._bytes += num_bytes
        try:
            yield
        finally:
            self._bytes -= num_bytes

    def add(self, request: WaitingRequest) -> None:
        """Append a request."""
        self._queue.append(request)
        self.num_records += len(request.records)
        self._arrived.set()

    def take_older(self, than_s: float) -> list[WaitingRequest]:
        """Remove the requests that arrived before this time, monotonic."""
        old: list[WaitingRequest] = []
        while self._queue and self._queue[0].arrived_s < than_s:
            old.append(self._queue.popleft())
        self.num_records -= sum(len(request.records) for request in old)
        return old

    async def take(self, most: int) -> list[WaitingRequest]:
        """Wait for a request, and take the oldest ones: at most this many records, or one request."""
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        taken: list[WaitingRequest] = []
        count = 0
        while self._queue and (not taken or count + len(self._queue[0].records) <= most):
            request = self._queue.popleft()
            count += len(request.records)
            taken.append(request)
        self.num_records -= count
        return taken

    @property
    def oldest_s(self) -> float | None:
        """When the oldest request of the queue arrived, monotonic; ``None`` if there is none."""
        return self._queue[0].arrived_s if self._queue else None
