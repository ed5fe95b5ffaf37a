"""``Endpoint``: callers without the token get nothing, and no input stops it."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.helpers import wait_for
from tests.wire.garbage import Bomb, exploded, pelt, refusals

from penstock.errors import WireError
from penstock.receive.messages import ReportError, StopReceiver, UpdateRateLimit
from penstock.wire import endpoint as endpoints
from penstock.wire.client import Client, fetch
from penstock.wire.endpoint import Endpoint, Ports
from penstock.wire.json_codec import Reply, StreamNotFoundError, from_json
from penstock.wire.token import Token, content_of
from penstock_testing import ManualClock, throttle

if TYPE_CHECKING:
    from tests.wire.conftest import Served

UPDATE = UpdateRateLimit(5.0, 1)
BATCHES = [pa.record_batch({"number": [1, 2]}), pa.record_batch({"number": [3]})]


def open_stream(ticket: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if ticket == "broken":
        raise OSError("the disk is gone")
    if ticket != "numbers":
        raise StreamNotFoundError(f"no {ticket!r} here")
    return BATCHES[0].schema, BATCHES


@pytest.fixture(autouse=True)
def each_refusal_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_THROTTLE_S", 0)


@pytest.fixture
def streams() -> Iterator[tuple[str, Token]]:
    """The location of an endpoint that serves one stream, and its token."""
    token = Token.generate()
    endpoint = Endpoint("127.0.0.1", token, {}, open_stream)
    yield token.location("127.0.0.1", endpoint.port), token
    endpoint.stop()


def call(served: Served, action: str, body: bytes, *headers: tuple[bytes, bytes]) -> list[flight.Result]:
    """A call as anybody could make it."""
    with flight.FlightClient(served.location) as client:
        options = flight.FlightCallOptions(timeout=10, headers=list(headers))
        return list(client.do_action(flight.Action(action, body), options))


def signed(served: Served, action: str, body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of a call by an owner of the token."""
    return served.token.sign(content_of(action, body)).headers()


def test_bomb_of_these_tests_explodes_when_unpickled() -> None:
    # The exact bytes that the tests below send.
    pickle.loads(pickle.dumps(Bomb()))
    assert exploded == ["a bomb"]
    exploded.clear()


def works(served: Served) -> bool:
    before = len(served.handled)
    served.client().ask(UPDATE, Reply)
    return served.handled[before:] == [UPDATE]


def test_a_message_reaches_its_handler_and_is_answered(served: Served) -> None:
    served.answer = lambda _message: Reply(False, "not today")
    message = ReportError(1, 2, "m\ud800", "e\n\0")
    assert served.client().ask(message, Reply) == Reply(False, "not today")
    assert served.handled == [message]


@pytest.mark.parametrize(
    "header",
    [
        None,
        (b"authorization", b""),
        (b"authorization", b"Bearer"),
        (b"authorization", b"Bearer wrong"),
        (b"authorization", b"Basic dXNlcjpwYXNz"),
        (b"token", b"x"),
    ],
    ids=str,
)
def test_a_call_without_the_token_is_refused_and_counted(
    served: Served, header: tuple[bytes, bytes] | None, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError):
        call(served, "UpdateRateLimit", b'{"rate": 5, "number": 1}', *([header] if header else []))
    assert served.handled == []
    assert refusals(caplog) == ["call without the application's token refused"]
    assert works(served)


def test_refusals_of_ten_seconds_have_one_line_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "_THROTTLE_S", 10)
    clock = ManualClock()
    throttle.reset(clock)
    for passed_s in (0, 9, 0, 1):
        clock.advance(passed_s * 1000)
        with pytest.raises(flight.FlightUnauthenticatedError):
            call(served, "UpdateRateLimit", b"{}")
    assert refusals(caplog) == ["call without the application's token refused"] * 2
    assert "refused=4 suppressed=2" in caplog.text
    throttle.reset()


def test_another_token_or_a_part_of_it_is_refused(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    own = served.token.secret
    for secret in (own[:-1], own + "x", own.swapcase(), Token.generate().secret):
        with pytest.raises(WireError, match="refused UpdateRateLimit"):
            served.client(Token(secret)).ask(UPDATE, Reply)
    assert served.handled == []
    assert refusals(caplog) == ["call without the application's token refused"] * 4
    assert "refused=4" in caplog.text


def test_every_kind_of_call_needs_the_token(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    descriptor = flight.FlightDescriptor.for_path("x")
    schema = pa.schema([("a", pa.int64())])
    with flight.FlightClient(served.location) as client:
        calls: list[Callable[[], object]] = [
            lambda: client.do_get(flight.Ticket(b"input-0-1-0")).read_all(),
            lambda: list(client.list_flights()),
            lambda: list(client.list_actions()),
            lambda: client.get_flight_info(descriptor),
            lambda: client.get_schema(descriptor),
            lambda: client.do_put(descriptor, schema)[0].close(),
            lambda: client.do_exchange(descriptor)[1].read_all(),
        ]
        for attempt in calls:
            # An error of a stream that the caller writes to is an OSError.
            with pytest.raises((flight.FlightUnauthenticatedError, OSError), match="token only"):
                attempt()
    assert refusals(caplog) == ["call without the application's token refused"] * len(calls)
    assert works(served)


@pytest.mark.parametrize("action", ["StopReceiver", "updateratelimit", "", "__init__", "Reply", "x" * 200])
def test_an_action_that_is_not_served_is_refused(served: Served, action: str) -> None:
    with pytest.raises(flight.FlightServerError, match="takes no"):
        call(served, action, b"{}", *signed(served, action, b"{}"))
    assert served.handled == []
    assert works(served)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"rate": "5"}',
        b'{"rate": 5, "number": 1, "more": 1}',
        b'{"rate": 5, "number": 1}{"rate": 5}',
        pickle.dumps(UPDATE),
        pickle.dumps(Bomb()),
        b"[" * 200_000,
    ],
    ids=range(12),
)
def test_malformed_message_is_refused(
    served: Served, body: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for function in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, function, lambda *_args, function=function: exploded.append(function))
    with pytest.raises(flight.FlightError):
        call(served, "UpdateRateLimit", body, *signed(served, "UpdateRateLimit", body))
    assert served.handled == []
    assert refusals(caplog) == ["message refused"]
    assert exploded == []
    assert works(served)


def test_garbage_at_the_port_does_no_harm(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    strangers, messages = pelt(served.endpoint.port, served.token, "UpdateRateLimit")
    assert refusals(caplog) == [
        *["call without the application's token refused"] * strangers,
        *["message refused"] * messages,
    ]
    assert (served.handled, exploded) == ([], [])
    assert works(served)


def test_silent_connection_delays_no_other(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.endpoint.port), timeout=10):
        assert works(served)


def test_a_handlers_error_reaches_the_caller_and_the_endpoint_lives(served: Served) -> None:
    def fail(message: object) -> object:
        raise RuntimeError("the handler's own reason")

    served.answer = fail
    with pytest.raises(WireError, match="the handler's own reason"):
        served.client().ask(UPDATE, Reply)
    served.answer = lambda _message: Reply()
    assert works(served)


def test_the_secret_is_in_no_log_and_no_error(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "penstock")
    wrong = Token.generate()
    with pytest.raises(WireError) as caught:
        served.client(wrong).ask(UPDATE, Reply)
    with pytest.raises(WireError) as caught_too:
        served.client().ask(StopReceiver("x"), Reply)
    for shown in (caplog.text, str(caught.value), str(caught_too.value), repr(served.client())):
        assert served.token.secret not in shown
        assert wrong.secret not in shown


def test_endpoint_listens_on_its_address_only(served: Served) -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", served.endpoint.port), timeout=10)


def test_a_stopped_endpoint_answers_nobody(served: Served) -> None:
    served.endpoint.stop()
    served.endpoint.stop()
    with pytest.raises(WireError, match="no answer"):
        served.client(retry=False, timeout_ms=2000).ask(UPDATE, Reply)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", served.endpoint.port), timeout=10)


def test_an_endpoint_that_never_started_can_be_stopped() -> None:
    Endpoint("127.0.0.1", Token.generate(), {}).stop()


def test_two_endpoints_have_two_ports(served: Served) -> None:
    other = Endpoint("127.0.0.1", served.token, {})
    assert other.port != served.endpoint.port
    other.stop()


def test_an_endpoint_without_streams_refuses_every_ticket(served: Served) -> None:
    with (
        flight.FlightClient(served.location) as client,
        pytest.raises(flight.FlightServerError, match="serves no streams"),
    ):
        client.do_get(flight.Ticket(b"x"), flight.FlightCallOptions(headers=signed(served, "", b"x"))).read_all()


def test_a_stream_reaches_the_caller(streams: tuple[str, Token]) -> None:
    location, token = streams
    assert list(fetch(location, "numbers", token, 10)) == BATCHES


def test_a_ticket_without_stream_is_not_found(streams: tuple[str, Token]) -> None:
    location, token = streams
    with pytest.raises(StreamNotFoundError, match="no 'letters' here"):
        list(fetch(location, "letters", token, 10))


def test_a_stream_that_fails_is_an_error_and_not_absent(streams: tuple[str, Token]) -> None:
    location, token = streams
    with pytest.raises(WireError, match="disk") as caught:
        list(fetch(location, "broken", token, 10))
    assert not isinstance(caught.value, StreamNotFoundError)


def test_no_stream_without_the_token(streams: tuple[str, Token]) -> None:
    location, _token = streams
    with pytest.raises(WireError, match="token only"):
        list(fetch(location, "numbers", Token.generate(), 10))


def test_fetch_without_an_endpoint_is_an_error() -> None:
    with pytest.raises(WireError) as caught:
        list(fetch("grpc://127.0.0.1:1", "numbers", Token("t"), 10))
    assert not isinstance(caught.value, StreamNotFoundError)


def test_a_port_in_use_is_followed_by_the_next(served: Served) -> None:
    taken = served.endpoint.port
    # Below the ports that the system chooses from, nobody takes the next one meanwhile. No public name checks
    # whether a port is free.
    with socket.socket() as blocker:
        first = next(port for port in range(20_000, 30_000) if endpoints._why_not("127.0.0.1", port) == "")
        blocker.bind(("127.0.0.1", first))
        blocker.listen()
        other = Endpoint("127.0.0.1", served.token, {}, ports=Ports(first, 20))
        assert first < other.port <= first + 20
        other.stop()
    with pytest.raises(WireError, match=f"^cannot listen on 127.0.0.1, port {taken}: Address already in use. Do this$"):
        Endpoint("127.0.0.1", served.token, {}, ports=Ports(taken, 0, "Do this"))


def test_a_port_that_is_taken_after_it_was_found_free_is_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = served.endpoint.port
    monkeypatch.setattr(endpoints, "_why_not", lambda _host, _port: "")
    with pytest.raises(WireError, match=rf"^cannot listen on 127\.0\.0\.1, port {taken}: .*Do this$"):
        Endpoint("127.0.0.1", served.token, {}, ports=Ports(taken, 0, "Do this"))


@pytest.mark.parametrize(
    ("ports", "tried"), [(Ports(), [0]), (Ports(5000, 2), [5000, 5001, 5002]), (Ports(65535, 9), [65535])]
)
def test_ports_are_tried_in_order(ports: Ports, tried: list[int]) -> None:
    assert list(ports.numbers()) == tried


@pytest.mark.parametrize(("host", "reason"), [("203.0.113.1", "Cannot assign"), ("no-such-host.invalid", "not known")])
def test_an_address_of_another_host_is_refused_with_the_reason(host: str, reason: str) -> None:
    with pytest.raises(WireError, match=rf"cannot listen on {host}, port any: .*{reason}"):
        Endpoint(host, Token.generate(), {})


@pytest.mark.parametrize("host", ["::1", "[::1]", "::"])
def test_endpoint_listens_on_ipv6(served: Served, host: str) -> None:
    endpoint = Endpoint(host, served.token, {UpdateRateLimit: lambda _message: Reply()})
    client = Client(served.token.location("::1", endpoint.port), served.token, 10_000)
    assert client.ask(UPDATE, Reply) == Reply()
    client.close()
    endpoint.stop()


def test_a_large_message_is_refused_before_it_is_parsed(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "from_json", lambda *_: pytest.fail("it was parsed"))
    # The limit is no setting, so it has no public name.
    size = endpoints._MAX_MESSAGE_BYTES + 1
    with pytest.raises(flight.FlightServerError, match=f"a message of {size} bytes is larger than {size - 1} bytes"):
        call(served, "UpdateRateLimit", bytes(size), *signed(served, "UpdateRateLimit", bytes(size)))
    # Without the token its size does not matter.
    with pytest.raises(flight.FlightUnauthenticatedError):
        call(served, "UpdateRateLimit", bytes(size))
    assert refusals(caplog) == ["message refused", "call without the application's token refused"]
    monkeypatch.undo()
    assert works(served)


def test_messages_are_decoded_one_at_a_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[object] = []
    both = threading.Event()

    def observed(kind: type, body: bytes) -> object:
        inside.append(body)
        if len(inside) == 2:
            both.set()
        # Long enough for the other message, which has been sent.
        both.wait(0.2)
        inside.pop()
        return from_json(kind, body)

    monkeypatch.setattr(endpoints, "from_json", observed)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda client: client.ask(UPDATE, Reply), [served.client(), served.client()])) == [
            Reply(),
            Reply(),
        ]
    assert not both.is_set()


def test_a_handler_that_waits_holds_up_no_other_message(served: Served) -> None:
    handled = threading.Event()

    def answer(message: object) -> Reply:
        if message == UPDATE:
            assert handled.wait(20)
        else:
            handled.set()
        return Reply()

    served.answer = answer
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(served.client().ask, UPDATE, Reply)
        wait_for(lambda: served.handled, "the first message is handled")
        served.client().ask(UpdateRateLimit(6.0, 1), Reply)
        assert waits.result(20) == Reply()
