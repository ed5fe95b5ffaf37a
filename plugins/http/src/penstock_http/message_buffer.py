"""``MessageBuffer``: messages that were read and are not stored yet. Used on the event loop only."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from attrs import field, frozen

_MOST_MESSAGES = 10_000
_MOST_BYTES = 16 << 20
_URGENT_FILL = 0.5


@frozen
class Message:
    """A message of a server.

    Attributes:
        value: its body.
        arrived_us: microseconds since the epoch.
        event: type of a server-sent event.
        id: last id that the server had sent.
    """

    value: bytes = field(repr=False)
    arrived_us: int
    event: str = ""
    id: str = ""


class MessageBuffer:
    """A queue between the task that reads and the one that stores. While it is full, the first one waits."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._is_closed = False
        self._has_some = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        # Whether what waits is to be stored without a delay.
        self._is_urgent = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    async def put(self, message: Message) -> None:
        """Wait for room, and append a message."""
        await self._has_room.wait()
        self._messages.append(message)
        self._bytes += len(message.value)
        self._has_some.set()
        fill = max(len(self._messages) / _MOST_MESSAGES, self._bytes / _MOST_BYTES)
        if fill >= 1:
            self._has_room.clear()
        if fill >= _URGENT_FILL:
            self._is_urgent.set()

    def close(self) -> None:
        """No message follows."""
        self._is_closed = True
        self._has_some.set()
        self._is_urgent.set()

    async def urgent_within(self, seconds: float) -> None:
        """Wait for some seconds, or until much waits or no message follows."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_urgent.wait()

    async def take(self, most: int) -> list[Message]:
        """Wait for messages, and remove the oldest ones; an empty list after the last message."""
        await self._has_some.wait()
        return self._removed(most)

    def take_rest(self) -> list[Message]:
        """Remove all messages."""
        return self._removed(len(self._messages))

    def _removed(self, most: int) -> list[Message]:
        taken = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
        self._bytes -= sum(len(message.value) for message in taken)
        self._has_room.set()
        if not self._is_closed:
            self._is_urgent.clear()
            if not self._messages:
                self._has_some.clear()
        return taken
