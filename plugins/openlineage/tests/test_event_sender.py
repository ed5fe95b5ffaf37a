"""Sending events: in order, again after failures, and without ever delaying the program or its stop."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from tests.helpers import wait_for

from penstock_openlineage.event_sender import MOST_WAITING, EventRefusedError, EventSender
from penstock_openlineage.options import OpenLineageOptions


class Destination:
    """Takes events, or fails."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.error: Exception | None = None
        self.attempts = 0

    def __call__(self, event: bytes) -> None:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        self.events.append(event)


@pytest.fixture
def destination() -> Destination:
    return Destination()


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[bytes], None]], EventSender]]:
    senders: list[EventSender] = []

    def start(deliver: Callable[[bytes], None]) -> EventSender:
        senders.append(EventSender(deliver, "http://lineage", 1.0, first_delay_s=0.001))
        senders[-1].start()
        return senders[-1]

    yield start
    for sender in senders:
        sender.close()


Start = Callable[[Callable[[bytes], None]], EventSender]


def test_events_arrive_in_order(start: Start, destination: Destination) -> None:
    sender = start(destination)
    for number in range(50):
        sender.take(b"%d" % number)
    sender.close()
    assert destination.events == [b"%d" % number for number in range(50)]
    assert sender.dropped == 0


def test_events_of_an_outage_arrive_after_it(
    start: Start, destination: Destination, caplog: pytest.LogCaptureFixture
) -> None:
    destination.error = ConnectionRefusedError("nobody there")
    sender = start(destination)
    sender.take(b"1")
    wait_for(lambda: destination.attempts > 2, "attempts")
    sender.take(b"2")
    destination.error = None
    wait_for(lambda: destination.events == [b"1", b"2"], "the events")
    sender.close()
    assert sender.dropped == 0
    assert [record.getMessage().count("lineage event not sent, retrying") for record in caplog.records] == [1]


def test_an_outage_that_lasts_is_one_warning_with_the_number_of_dropped_events(
    start: Start, destination: Destination, caplog: pytest.LogCaptureFixture
) -> None:
    destination.error = ConnectionRefusedError("nobody there")
    sender = start(destination)
    started = time.monotonic()
    for number in range(MOST_WAITING + 20):
        sender.take(b"%d" % number)
    sender.close()
    assert time.monotonic() - started < 10
    assert sender.dropped == MOST_WAITING + 20
    last = [record.getMessage() for record in caplog.records if "lineage events dropped" in record.getMessage()]
    assert len(last) == 1
    assert f"dropped={MOST_WAITING + 20}" in last[0]
    assert "nobody there" in last[0]


def test_a_refused_event_is_dropped_and_the_next_one_is_sent(start: Start) -> None:
    taken: list[bytes] = []

    def deliver(event: bytes) -> None:
        if event == b"bad":
            raise EventRefusedError("the server answered 400 Bad Request")
        taken.append(event)

    sender = start(deliver)
    sender.take(b"bad")
    sender.take(b"good")
    sender.close()
    assert (taken, sender.dropped) == ([b"good"], 1)


def test_a_destination_that_hangs_delays_neither_events_nor_for_long_the_stop(start: Start) -> None:
    released = threading.Event()

    def hang(_event: bytes) -> None:
        released.wait()

    sender = start(hang)
    started = time.monotonic()
    for _ in range(1000):
        sender.take(b"event")
    assert time.monotonic() - started < 1
    sender.close()
    # Twice the timeout of one second.
    assert time.monotonic() - started < 5
    released.set()
    assert sender.dropped >= 1000 - 1


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses in turn, and notes the requests."""

    statuses: ClassVar[list[int]] = []
    requests: ClassVar[list[tuple[str, str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.statuses.pop(0) if self.statuses else 201)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Answering.statuses, Answering.requests = [], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "posted_to"), [("", "/api/v1/lineage"), ("/", "/api/v1/lineage"), ("/other/api", "/other/api")]
)
def test_events_are_posted_with_the_token(server: str, path: str, posted_to: str) -> None:
    sender = EventSender.of(OpenLineageOptions(url=f"{server}{path}", token="key"))
    sender.start()
    sender.take(b'{"a": 1}')
    sender.close()
    assert Answering.requests == [(posted_to, "Bearer key", b'{"a": 1}')]
    assert sender.dropped == 0


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 422])
def test_a_status_that_will_not_change_drops_the_event(server: str, status: int) -> None:
    Answering.statuses = [status]
    sender = EventSender.of(OpenLineageOptions(url=server))
    sender.start()
    sender.take(b"1")
    sender.take(b"2")
    sender.close()
    # The redirect is not followed.
    assert [(path, token, body) for path, token, body in Answering.requests] == [
        ("/api/v1/lineage", None, b"1"),
        ("/api/v1/lineage", None, b"2"),
    ]
    assert sender.dropped == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_status_that_may_change_is_tried_again(server: str, status: int) -> None:
    Answering.statuses = [status]
    sender = EventSender.of(OpenLineageOptions(url=server))
    sender.start()
    sender.take(b"1")
    wait_for(lambda: len(Answering.requests) == 1, "the first attempt")
    sender.close()
    assert [body for _path, _token, body in Answering.requests] == [b"1", b"1"]
    assert sender.dropped == 0


def test_a_server_that_never_answers_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = EventSender.of(OpenLineageOptions(url=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2))
        sender.start()
        started = time.monotonic()
        sender.take(b"1")
        sender.close()
        assert time.monotonic() - started < 5
        assert sender.dropped == 1
