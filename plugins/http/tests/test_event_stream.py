"""Server-sent events, as the HTML standard defines them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from penstock_http.event_stream import EventStream, ServerEvent

STREAM = (
    b"\xef\xbb\xbf: comment\r\ndata: first\r\n\r\n"
    b"event: add\rid: 1\rdata:two\rdata\rdata:  lines\r\r"
    b"retry: 250\nretry: soon\nid: 2\n\n"
    b"id: with\0null\nunknown: x\ndata: third\n\n"
    b"id\ndata: \xff\n\n"
    b"data: incomplete\n"
)
EVENTS = [
    ServerEvent("first", "message", ""),
    ServerEvent("two\n\n lines", "add", "1"),
    ServerEvent("third", "message", "2"),
    ServerEvent("\ufffd", "message", ""),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_events_may_be_split_anywhere(places: list[int]) -> None:
    stream = EventStream(1000)
    edges = [0, *sorted(places), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in stream.feed(STREAM[start:end])]
    assert events == EVENTS
    assert stream.retry_ms == 250


def test_first_event_without_an_id_has_that_of_the_request() -> None:
    assert EventStream(1000, "7").feed(b"data: x\n\n") == [ServerEvent("x", "message", "7")]


@given(st.lists(st.integers(0, 80), max_size=5))
def test_event_above_the_limit_is_dropped(places: list[int]) -> None:
    data = b"data: 1\n\nid: 5\ndata: %s\n\ndata: 3\n\ndata: 4\ndata: 56789\n\ndata: 6\n\n" % (b"x" * 30)
    stream = EventStream(15)
    edges = [0, *sorted(places), len(data)]
    events = [event for start, end in pairwise(edges) for event in stream.feed(data[start:end])]
    assert [(event.data, event.id) for event in events] == [("1", ""), ("3", "5"), ("6", "5")]
    assert stream.num_dropped == 2
