"""``SseReceiver``: reads server-sent events, and resumes after the last stored one.

The parser is ours: it is shorter than a call of a library for it would be, which would also bring a second HTTP client.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import ClientSession

from penstock.spi import get_logger
from penstock_http.event_stream import EventStream
from penstock_http.message_buffer import Message, MessageBuffer
from penstock_http.message_receiver import MessageReceiver, refusal
from penstock_http.options import SseOptions

log = get_logger("http")

#: The key of a block's metadata with the id of its last event.
POSITION = "last_event_id"
_RETRY_MS = 3000
_LONGEST_RETRY_MS = 3_600_000
_NO_CONTENT = 204


class SseReceiver(MessageReceiver):
    """Receives server-sent events.

    Args:
        options: address of the events, and what to store.
    """

    def __init__(self, options: SseOptions) -> None:
        super().__init__(options)
        self._options = options

    def position_after(self, message: Message) -> dict[str, Any]:
        return {POSITION: message.id}

    async def read(self, session: ClientSession, buffer: MessageBuffer) -> None:
        last_id = str(self.position.get(POSITION, self._options.last_event_id))
        limit = self._options.max_message_bytes
        while True:
            headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
            if last_id:
                headers["Last-Event-ID"] = last_id
            events = EventStream(self._options.max_message_bytes, last_id)
            async with session.get(self._options.url, headers=headers) as answer:
                if answer.status == _NO_CONTENT:
                    self.source_ended(f"{self._options.url} has no more events: 204")
                    return
                if answer.status != 200 or answer.content_type != "text/event-stream":
                    given = f"{answer.status} {answer.reason}, {answer.content_type}"
                    raise refusal(self._options.url, answer.status, given, "200, text/event-stream")
                count = 0
                async for data in answer.content.iter_any():
                    for event in events.feed(data):
                        await buffer.put(Message(event.data.encode(), time.time_ns() // 1000, event.event, event.id))
                        last_id, count = event.id, count + 1
                    if events.num_dropped:
                        self.count_dropped(f"events longer than {limit} bytes (max_message_bytes)", events.num_dropped)
                        events.num_dropped = 0
            if not count:
                raise ConnectionError(f"{self._options.url} ended the events before the first one")
            # Many servers end the connection now and then. They may say how long to wait.
            retry_ms = _RETRY_MS if events.retry_ms is None else min(events.retry_ms, _LONGEST_RETRY_MS)
            log.info("connection ended", stream_id=self.streamId, url=self._options.url, retry_ms=retry_ms)
            await asyncio.sleep(retry_ms / 1000)
