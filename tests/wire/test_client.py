"""``Client``: retries, timeouts, closing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from pyarrow import flight

from penstock.errors import WireError
from penstock.receive.messages import UpdateRateLimit
from penstock.wire.client import Client, address_towards
from penstock.wire.json_codec import Reply, to_json
from penstock.wire.token import Signature, Token

if TYPE_CHECKING:
    from tests.wire.conftest import Served

UPDATE = UpdateRateLimit(5.0, 1)


class Flaky:
    """A connection that fails as often as it is received."""

    failures = 0
    error: Exception = flight.FlightUnavailableError("down")
    calls = 0

    def __init__(self, location: str) -> None:
        self.location = location

    def do_action(self, action: flight.Action, options: flight.FlightCallOptions) -> Iterator[flight.Result]:
        type(self).calls += 1
        if type(self).calls <= type(self).failures:
            raise type(self).error
        reply = to_json(Reply(True, "at last"))
        signature = Signature.of({name.decode(): [value.decode()] for name, value in options.headers})
        assert signature is not None
        yield flight.Result(Token("t").answer_code(signature, reply) + reply)


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> type[Flaky]:
    class Fresh(Flaky):
        pass

    monkeypatch.setattr(flight, "FlightClient", Fresh)
    return Fresh


def client(timeout_ms: int, *, retry: bool = True) -> Client:
    return Client("grpc://there:1", Token("t"), timeout_ms, retry=retry)


@pytest.mark.parametrize("error", [flight.FlightUnavailableError("down"), flight.FlightTimedOutError("slow")], ids=repr)
def test_ask_is_retried_while_the_endpoint_is_not_reachable(flaky: type[Flaky], error: Exception) -> None:
    flaky.failures, flaky.error = 3, error
    assert client(10_000).ask(UPDATE, Reply) == Reply(True, "at last")
    assert flaky.calls == 4


def test_ask_ends_at_its_timeout(flaky: type[Flaky]) -> None:
    flaky.failures = 10**9
    before = time.monotonic()
    with pytest.raises(WireError, match=r"no answer from grpc://there:1 to UpdateRateLimit.*: .*down"):
        client(500).ask(UPDATE, Reply)
    assert time.monotonic() - before < 20
    assert flaky.calls > 1


def test_ask_without_retry_fails_at_once(flaky: type[Flaky]) -> None:
    flaky.failures = 1
    with pytest.raises(WireError, match="no answer"):
        client(10_000, retry=False).ask(UPDATE, Reply)
    assert flaky.calls == 1


def test_a_refusal_is_final(flaky: type[Flaky]) -> None:
    flaky.failures, flaky.error = 1, flight.FlightUnauthenticatedError("who are you?\nsecond line")
    with pytest.raises(WireError, match=r"^grpc://there:1 refused UpdateRateLimit: who are you\?$"):
        client(10_000).ask(UPDATE, Reply)
    assert flaky.calls == 1


@pytest.mark.parametrize("retry", [True, False])
def test_ask_without_an_endpoint_is_an_error_in_time(retry: bool) -> None:
    nobody = Client("grpc://127.0.0.1:1", Token("t"), 300, retry=retry)
    before = time.monotonic()
    with pytest.raises(WireError, match=r"no answer from grpc://127\.0\.0\.1:1"):
        nobody.ask(UPDATE, Reply)
    assert time.monotonic() - before < 20
    nobody.close()


def test_an_endpoint_that_does_not_answer_is_an_error_in_time(served: Served) -> None:
    gate = threading.Event()

    def wait(_message: object) -> object:
        gate.wait(30)
        return Reply()

    served.answer = wait
    before = time.monotonic()
    try:
        with pytest.raises(WireError, match="no answer from grpc://"):
            served.client(timeout_ms=200).ask(UPDATE, Reply)
        assert time.monotonic() - before < 20
    finally:
        gate.set()


def test_threads_share_a_client(served: Served) -> None:
    served.answer = lambda message: Reply(True, str(getattr(message, "rate", None)))
    shared = served.client()

    def ask(rate: float) -> str:
        return shared.ask(UpdateRateLimit(rate, 1), Reply).reason

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, map(float, range(100)))) == [str(float(rate)) for rate in range(100)]
    assert len(served.handled) == 100


def test_a_closed_client_does_not_ask(served: Served) -> None:
    closed = served.client()
    closed.close()
    with pytest.raises(WireError):
        closed.ask(UPDATE, Reply)
    assert served.handled == []


def test_reply_of_another_class_is_an_error(served: Served) -> None:
    served.answer = lambda _message: UPDATE
    with pytest.raises(WireError, match="not a Reply message"):
        served.client().ask(UPDATE, Reply)


def test_the_token_is_not_printed(served: Served) -> None:
    shown: Any = repr(served.client()) + repr(vars(served.client()).get("location"))
    assert served.token.secret not in shown


def test_a_connection_closes_after_the_calls_in_progress(served: Served) -> None:
    held, gate = threading.Event(), threading.Event()

    def answer(_message: object) -> Reply:
        held.set()
        assert gate.wait(10)
        return Reply(True, "in time")

    served.answer = answer
    client = served.client()
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(client.ask, UPDATE, Reply)
        assert held.wait(10)
        client.close()
        with pytest.raises(WireError, match="is closed"):
            client.ask(UPDATE, Reply)
        gate.set()
        assert asking.result(timeout=10) == Reply(True, "in time")
    client.close()


def test_advice_ends_the_error_of_an_endpoint_that_cannot_be_reached(flaky: type[Flaky]) -> None:
    flaky.failures = 1
    asking = Client("grpc://there:1", Token("t"), 1000, retry=False, advice="Open the port")
    with pytest.raises(
        WireError, match=r"^no answer from grpc://there:1 to UpdateRateLimit: down\b.*\. Open the port$"
    ):
        asking.ask(UPDATE, Reply)


@pytest.mark.parametrize("location", ["grpc://127.0.0.1:5", "grpc://[::1]:5"])
def test_this_host_is_reached_by_its_loopback_address(location: str) -> None:
    assert address_towards(location) == urlsplit(location).hostname


def test_the_next_address_of_a_name_is_used_where_the_first_has_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(_host: str, port: int, type: int) -> list[Any]:
        # A link-local address without the name of the link.
        far = (socket.AF_INET6, type, 17, "", ("fe80::1", port, 0, 0))
        return [far, (socket.AF_INET, type, 17, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert address_towards("grpc://both:5") == "127.0.0.1"


def test_name_whose_addresses_have_no_route_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    far = (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("fe80::1", 5, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: [far])
    with pytest.raises(WireError, match=r"^no route to grpc://far:5: ."):
        address_towards("grpc://far:5")


def test_unknown_driver_name_is_an_error_that_names_this_host() -> None:
    with pytest.raises(WireError, match=rf"'no-such-host.invalid' has no address on {socket.gethostname()}"):
        address_towards("grpc://no-such-host.invalid:5")
