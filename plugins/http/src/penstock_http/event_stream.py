"""``EventStream``: parses server-sent events from bytes, as the HTML standard defines the format."""

from __future__ import annotations

from attrs import frozen

_BOM = b"\xef\xbb\xbf"
_LONGEST_NUMBER = 9


@frozen
class ServerEvent:
    """One event.

    Attributes:
        data: the lines of its data, joined by newlines.
        event: its type; ``message`` unless the server names another.
        id: the last id that the server has sent so far, empty before the first.
    """

    data: str
    event: str
    id: str


class EventStream:
    """The events of one connection.

    Args:
        max_event_bytes: a longer event is dropped; it is never held in memory.
        last_event_id: the id with which the connection was requested.

    Attributes:
        retry_ms: the last time to wait before a new connection that the server has sent; ``None`` if it has not.
        num_dropped: number of events that were too long.
    """

    def __init__(self, max_event_bytes: int, last_event_id: str = "") -> None:
        self.retry_ms: int | None = None
        self.num_dropped = 0
        self._max_event_bytes = max_event_bytes
        # The bytes of a line that has not ended.
        self._rest = b""
        self._is_first = True
        # Whether the line that has not ended is dropped, and whether the event is.
        self._drops_line = False
        self._drops_event = False
        self._last_id = last_event_id
        self._data: list[str] = []
        self._event = ""
        self._size = 0

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Parse more bytes; return the events that they complete."""
        text = self._rest + data
        if self._is_first:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                self._rest = text
                return []
            text, self._is_first = text.removeprefix(_BOM), False
        # A carriage return at the end may be the first half of a line ending.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest = lines.pop()
        if lines and self._drops_line:
            del lines[0]
            self._drops_line = False
        events = [event for line in lines if (event := self._line(line)) is not None]
        if len(rest) > self._max_event_bytes:
            rest, self._drops_line, self._drops_event = b"", True, True
        self._rest = rest + held
        return events

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        self._size += len(line)
        self._drops_event |= self._size > self._max_event_bytes
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data" if not self._drops_event:
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._last_id = value
            case "retry" if value.isascii() and value.isdigit() and len(value) <= _LONGEST_NUMBER:
                self.retry_ms = int(value)
        return None

    def _dispatch(self) -> ServerEvent | None:
        """End the event."""
        event = None
        if self._drops_event:
            self.num_dropped += 1
        elif self._data:
            event = ServerEvent("\n".join(self._data), self._event or "message", self._last_id)
        self._data, self._event, self._size, self._drops_event = [], "", 0, False
        return event
